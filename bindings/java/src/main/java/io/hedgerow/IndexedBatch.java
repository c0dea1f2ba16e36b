package io.hedgerow;

/**
 * A batch that reads its own writes over a snapshot. Everybody else sees them when it is committed.
 * Made by {@link Hedgerow#indexedBatch}. Close it: one that is not committed is discarded.
 *
 * <p>Writes gather in Java, and reach native code together before the next read. So a write that is
 * refused is refused there, and leaves the batch with the writes before it.
 */
public class IndexedBatch extends Writes<IndexedBatch> implements AutoCloseable {
    /** The bytes of writes that gather before they go to native code. */
    private static final int GATHERED_BYTES = 64 << 10;

    final Ref ref;
    /** The bytes of writes that have gone to native code. */
    private long passedBytes;

    IndexedBatch(Hedgerow db, long handle) {
        super(db);
        ref = new Ref(this, Ref.BATCH, handle);
    }

    @Override
    IndexedBatch self() {
        return this;
    }

    @Override
    void added() {
        if (length >= GATHERED_BYTES) {
            gathered();
        }
    }

    /** The handle of the batch, which has all writes. */
    private long gathered() {
        long handle = ref.get();
        if (length > 0) {
            int bytes = length;
            passedBytes += bytes;
            reset();
            add0(handle, packed.array, bytes);
        }
        return handle;
    }

    /**
     * The entries of a keyspace as the batch sees them. An iterator shows the writes that were in
     * the batch when it was opened.
     */
    public ReadView view(Keyspace keyspace) {
        return new View(this, keyspace);
    }

    /** The memory of the writes, and of the record of a transaction's reads, in bytes. */
    public long memoryBytes() {
        return memoryBytes0(gathered());
    }

    /** Marks the present end of the writes. */
    public Savepoint savepoint() {
        return new Savepoint(this, savepoint0(gathered()), size);
    }

    /** Removes the writes behind a savepoint, and the savepoints behind it. */
    public void rollBackTo(Savepoint savepoint) {
        if (savepoint.batch != this) {
            throw new IllegalArgumentException("expected a savepoint of this batch");
        }
        rollBackTo0(gathered(), savepoint.index);
        size = savepoint.size;
    }

    /** Commits as {@link #commit(boolean)} does, buffered. */
    public void commit() {
        commit(false);
    }

    /**
     * Commits all writes or none, whatever others have written since, and closes the batch.
     *
     * @param sync true to return when the writes, and all before them, are durable
     * @throws InterruptedCallException if the thread is interrupted while the batch waits for
     *     memory, and it keeps its writes; or if it had 1 MiB of writes or more, and the commit
     *     goes on in the background
     */
    public void commit(boolean sync) {
        long handle = gathered();
        if (passedBytes > 0) {
            db.awaitMemory();
        }
        ref.forget();
        if (passedBytes < Batch.LARGE_BYTES) {
            commit0(handle, sync ? 1 : 0);
        } else {
            Calls.start(id -> commitLarge0(id, handle, sync ? 1 : 0)).await();
        }
    }

    /** Discards the writes, unless they are committed. */
    @Override
    public void close() {
        ref.close();
    }

    /** A place among the writes of a batch. */
    public static final class Savepoint {
        private final IndexedBatch batch;
        private final int index;
        private final int size;

        Savepoint(IndexedBatch batch, int index, int size) {
            this.batch = batch;
            this.index = index;
            this.size = size;
        }
    }

    private static final class View extends ReadView {
        private final IndexedBatch batch;
        private final Keyspace keyspace;

        View(IndexedBatch batch, Keyspace keyspace) {
            this.batch = batch;
            this.keyspace = keyspace;
        }

        @Override
        int kind() {
            return Ref.BATCH;
        }

        @Override
        long source() {
            return batch.gathered();
        }

        @Override
        Keyspace keyspace() {
            return keyspace;
        }
    }

    private native void add0(long batch, byte[] packed, int bytes);

    private native long memoryBytes0(long batch);

    private native int savepoint0(long batch);

    private native void rollBackTo0(long batch, int savepoint);

    private native void commit0(long batch, int sync);

    private native void commitLarge0(long id, long batch, int sync);
}
