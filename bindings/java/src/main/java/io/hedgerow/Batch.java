package io.hedgerow;

import java.util.concurrent.CompletableFuture;

/**
 * Writes that become visible and durable together: all or none. Made by {@link Hedgerow#batch}. It
 * lives in Java until it is committed, by one crossing, and needs no closing.
 */
public final class Batch extends Writes<Batch> {
    /** A batch from this size on is committed by a thread of its own. */
    static final int LARGE_BYTES = 1 << 20;

    Batch(Hedgerow db) {
        super(db);
    }

    @Override
    Batch self() {
        return this;
    }

    /** The approximate size in bytes. */
    public int bytes() {
        return length;
    }

    /** Removes all writes. */
    public void clear() {
        reset();
        size = 0;
    }

    /** Commits as {@link #commit(boolean)} does, buffered. */
    public void commit() {
        commit(false);
    }

    /**
     * Commits all writes or none, and clears the batch. After a failure it keeps its writes.
     *
     * @param sync true to return when the writes, and all before them, are durable
     * @throws InterruptedCallException if the thread is interrupted while the batch waits for
     *     memory, and it keeps its writes; or if it has 1 MiB or more, and the commit goes on in
     *     the background, and the batch is empty
     */
    public void commit(boolean sync) {
        db.awaitMemory();
        if (length < LARGE_BYTES) {
            commit0(db.ref.get(), packed.array, length, sync ? 1 : 0);
        } else {
            commitLarge(sync);
        }
        clear();
    }

    private void commitLarge(boolean sync) {
        Call<Void> committed =
                Calls.start(id -> commitLarge0(id, db.ref.get(), packed.array, length, sync ? 1 : 0));
        try {
            committed.await();
        } catch (InterruptedCallException e) {
            clear();
            throw e;
        }
    }

    /**
     * Commits all writes or none, after the asynchronous calls made before, and clears the batch.
     *
     * @param sync true to complete when the writes, and all before them, are durable
     */
    public CompletableFuture<Void> commitAsync(boolean sync) {
        CompletableFuture<Void> committed =
                Calls.start(
                        id -> commitAsync0(id, db.ref.get(), packed.array, length, sync ? 1 : 0),
                        answer -> null,
                        db.executor);
        clear();
        return committed;
    }

    private native void commit0(long db, byte[] packed, int bytes, int sync);

    private native void commitLarge0(long id, long db, byte[] packed, int bytes, int sync);

    private native void commitAsync0(long id, long db, byte[] packed, int bytes, int sync);
}
