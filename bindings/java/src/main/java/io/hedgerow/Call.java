package io.hedgerow;

import java.util.concurrent.CancellationException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Predicate;

/**
 * A call that runs in the background, and the future of its result. A long one tells its progress
 * and can be cancelled.
 *
 * @param <T> the type of the result
 */
public final class Call<T> extends CompletableFuture<T> {
    /** The time between two reports of progress: short for a person. */
    private static final long REPORT_MILLIS = 100;

    final long id;

    Call(long id) {
        this.id = id;
    }

    /** The progress of a long call so far; zeros if it is over or reports none. */
    public Progress progress() {
        return Calls.progress(id);
    }

    /**
     * Asks the call to end, and completes the future with a {@link CancellationException}. What
     * cannot be cut short, such as a flush, runs to its end.
     */
    @Override
    public boolean cancel(boolean mayInterruptIfRunning) {
        Calls.cancel(id);
        return super.cancel(mayInterruptIfRunning);
    }

    /**
     * Waits for the result.
     *
     * @throws InterruptedCallException if the thread is interrupted; the call is asked to end
     * @throws CancelledException if the call was cancelled
     * @throws HedgerowException and others, as the call
     */
    public T await() {
        return await(progress -> true);
    }

    /**
     * Waits for the result, and tells the progress ten times a second on this thread.
     *
     * @param goOn returns false to cancel the call
     */
    public T await(Predicate<Progress> goOn) {
        while (true) {
            try {
                return get(REPORT_MILLIS, TimeUnit.MILLISECONDS);
            } catch (TimeoutException e) {
                if (!goOn.test(progress())) {
                    cancel(true);
                }
            } catch (InterruptedException e) {
                Calls.cancel(id);
                throw interrupted(e);
            } catch (CancellationException e) {
                throw new CancelledException("the call was cancelled");
            } catch (ExecutionException e) {
                throw failure(e.getCause());
            }
        }
    }

    /**
     * Waits so long, or until there is a result, or a failure. An interrupt does not end the call.
     */
    void awaitFor(long millis) {
        try {
            get(millis, TimeUnit.MILLISECONDS);
        } catch (TimeoutException | CancellationException | ExecutionException e) {
            // Whoever waits for the result learns it.
        } catch (InterruptedException e) {
            throw interrupted(e);
        }
    }

    private static InterruptedCallException interrupted(InterruptedException cause) {
        Thread.currentThread().interrupt();
        return new InterruptedCallException(cause);
    }

    private static RuntimeException failure(Throwable cause) {
        if (cause instanceof RuntimeException) {
            // The trace of the thread that waited says more than that of the one that completed.
            cause.fillInStackTrace();
            return (RuntimeException) cause;
        }
        return new HedgerowException(cause.getMessage(), cause);
    }

    /** The bytes that a long call has worked on. */
    public static final class Progress {
        private final long doneBytes;
        private final long totalBytes;

        Progress(long doneBytes, long totalBytes) {
            this.doneBytes = doneBytes;
            this.totalBytes = totalBytes;
        }

        /** The bytes that are done. */
        public long doneBytes() {
            return doneBytes;
        }

        /** The bytes that there are to do, as far as it is known. */
        public long totalBytes() {
            return totalBytes;
        }

        @Override
        public String toString() {
            return doneBytes + " of " + totalBytes + " bytes";
        }
    }
}
