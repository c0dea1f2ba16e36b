package io.hedgerow;

import java.util.Arrays;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Function;
import java.util.function.LongConsumer;
import java.util.function.LongFunction;

/**
 * The calls whose results are not there yet. One daemon thread takes results out of the native
 * library, many at a time, and completes their futures.
 */
final class Calls {
    private static final AtomicLong IDS = new AtomicLong();
    private static final ConcurrentHashMap<Long, Waiting<?>> WAITING = new ConcurrentHashMap<>();

    /** Runs what depends on calls that have no executor: a thread each while they wait. */
    private static final Executor DEPENDENTS =
            Executors.newCachedThreadPool(
                    task -> {
                        Thread thread = new Thread(task, "hedgerow-dependents");
                        thread.setDaemon(true);
                        return thread;
                    });

    private static final Waiting<Void> NOBODY = new Waiting<>(new Call<>(0), answer -> null, null);

    static {
        NativeLibrary.load();
        Thread thread = new Thread(Calls::completeAll, "hedgerow-results");
        thread.setDaemon(true);
        thread.start();
    }

    private Calls() {}

    /**
     * Starts a call.
     *
     * @param start gives the native library the call's number
     * @param decode makes the result of the bytes of the answer, which may be null
     * @param executor runs what depends on the result; null for threads of our own. It may wait for
     *     other calls, so it is not the thread of results
     */
    static <T> Call<T> start(LongConsumer start, Function<byte[], T> decode, Executor executor) {
        long id = IDS.incrementAndGet();
        Call<T> call = new Call<>(id);
        WAITING.put(id, new Waiting<>(call, decode, executor));
        try {
            start.accept(id);
        } catch (Throwable e) {
            WAITING.remove(id);
            throw e;
        }
        return call;
    }

    /** A call without a result, which the caller waits for. */
    static Call<Void> start(LongConsumer start) {
        return start(start, answer -> null, null);
    }

    /**
     * Starts a call that may be answered at once.
     *
     * @param start returns the answer, which begins with 1 if there is a value; null if it comes
     *     later
     */
    static Call<byte[]> startOrAnswer(LongFunction<byte[]> start, Executor executor) {
        byte[][] answer = new byte[1][];
        Call<byte[]> call = start(id -> answer[0] = start.apply(id), value -> value, executor);
        if (answer[0] != null) {
            WAITING.remove(call.id);
            call.complete(answer[0][0] == 1 ? Arrays.copyOfRange(answer[0], 1, answer[0].length) : null);
        }
        return call;
    }

    static Call.Progress progress(long id) {
        byte[] packed = progress0(id);
        if (packed == null) {
            return new Call.Progress(0, 0);
        }
        Unpacker numbers = new Unpacker(packed);
        return new Call.Progress(numbers.nextLong(), numbers.nextLong());
    }

    static void cancel(long id) {
        cancel0(id);
    }

    private static void completeAll() {
        Unpacker answers = null;
        while (true) {
            try {
                if (answers == null || !answers.hasNext()) {
                    answers = new Unpacker(take0());
                }
                complete(answers);
            } catch (Throwable e) {
                report(e);
                // Without this thread no call would ever end. After an OutOfMemoryError the answers
                // are still there, and soon there may be memory.
                LockSupport.parkNanos(10_000_000);
            }
        }
    }

    private static void report(Throwable e) {
        try {
            Thread thread = Thread.currentThread();
            thread.getUncaughtExceptionHandler().uncaughtException(thread, e);
        } catch (Throwable another) {
            // There is nobody else to tell.
        }
    }

    private static void complete(Unpacker answers) {
        int end = answers.nextInt() + answers.position();
        try {
            Waiting<?> found = WAITING.remove(answers.nextLong());
            // The call that was made by a wrong number has no future.
            complete(found == null ? NOBODY : found, answers);
        } finally {
            answers.moveTo(end);
        }
    }

    private static void complete(Waiting<?> waiting, Unpacker answer) {
        try {
            int status = answer.nextByte();
            if (status == 2) {
                int kind = answer.nextInt();
                byte[] message = answer.nextBytes();
                byte[] keyspace = answer.nextBytes();
                waiting.fail(Failure.of(kind, message, keyspace, answer.nextBytes()));
            } else {
                waiting.complete(status == 1 ? answer.nextBytes() : null);
            }
        } catch (OutOfMemoryError e) {
            waiting.fail(e);
        }
    }

    private static final class Waiting<T> {
        private final Call<T> call;
        private final Function<byte[], T> decode;
        private final Executor executor;

        Waiting(Call<T> call, Function<byte[], T> decode, Executor executor) {
            this.call = call;
            this.decode = decode;
            this.executor = executor == null ? DEPENDENTS : executor;
        }

        void complete(byte[] answer) {
            execute(() -> call.complete(decode.apply(answer)), null);
        }

        void fail(Throwable failure) {
            execute(() -> call.completeExceptionally(failure), failure);
        }

        /** Completes the call by the executor, or here with an error if that refuses. */
        private void execute(Runnable completion, Throwable failure) {
            try {
                executor.execute(
                        () -> {
                            try {
                                completion.run();
                            } catch (Throwable e) {
                                call.completeExceptionally(e);
                            }
                        });
            } catch (Throwable e) {
                if (failure != null) {
                    e.addSuppressed(failure);
                }
                call.completeExceptionally(e);
            }
        }
    }

    private static native byte[] take0();

    private static native byte[] progress0(long id);

    private static native void cancel0(long id);
}
