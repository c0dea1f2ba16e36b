package io.hedgerow;

import java.lang.ref.Cleaner;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A handle of a native object, which is freed by {@link #close}, or at some time after its owner is
 * unreachable. A handle that was freed names nothing, so a late use is an exception.
 */
final class Ref {
    static final int DATABASE = 1;
    static final int KEYSPACE = 2;
    static final int SNAPSHOT = 3;
    static final int BATCH = 4;
    static final int ITERATOR = 5;
    static final int LOAD = 6;

    private static final String[] NOUNS = {
        "", "database", "keyspace", "snapshot", "batch", "iterator", "bulk load"
    };
    private static final Cleaner CLEANER;

    static {
        NativeLibrary.load();
        CLEANER = Cleaner.create();
    }

    private final State state;
    private final Cleaner.Cleanable cleanable;

    /** Owns a handle of a kind for an object, which must not be reachable from the reference. */
    Ref(Object owner, int kind, long handle) {
        state = new State(kind, handle);
        cleanable = CLEANER.register(owner, state);
    }

    /** The handle. */
    long get() {
        long handle = state.get();
        if (handle == 0) {
            throw new IllegalStateException("the " + NOUNS[state.kind] + " is closed");
        }
        return handle;
    }

    boolean isOpen() {
        return state.get() != 0;
    }

    /** Frees the handle, once. */
    void close() {
        cleanable.clean();
    }

    /** Takes the handle out, for a call that frees it; 0 if another one has it. */
    long take() {
        return state.getAndSet(0);
    }

    /** Puts a handle back that {@link #take} has taken. */
    void putBack(long handle) {
        state.set(handle);
    }

    /** Forgets a handle that native code has freed. */
    void forget() {
        state.set(0);
        cleanable.clean();
    }

    /** The number of native objects in memory, of all databases. */
    static long objects() {
        return objects0();
    }

    private static final class State extends AtomicLong implements Runnable {
        private static final long serialVersionUID = 1;
        private final int kind;

        State(int kind, long handle) {
            super(handle);
            this.kind = kind;
        }

        @Override
        public void run() {
            long handle = getAndSet(0);
            if (handle != 0) {
                free0(kind, handle);
            }
        }
    }

    private static native void free0(int kind, long handle);

    private static native long objects0();
}
