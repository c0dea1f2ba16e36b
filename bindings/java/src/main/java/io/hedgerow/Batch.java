package io.hedgerow;

import java.util.concurrent.CompletableFuture;

/**
 * Writes that become visible and durable together: all or none. Made by {@link Hedgerow#batch}. It
 * lives in Java until it is committed, by one crossing, and needs no closing.
 */
public final class Batch extends Writes<Batch> {
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
     */
    public void commit(boolean sync) {
        commit0(db.ref.get(), packed.array, length, sync ? 1 : 0);
        clear();
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

    private native void commitAsync0(long id, long db, byte[] packed, int bytes, int sync);
}
