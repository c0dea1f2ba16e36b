package io.hedgerow;

/**
 * An {@link IndexedBatch} whose commit is refused if others came first: if they have changed what
 * it has read (serializable), or what it writes (snapshot isolation). Made by {@link
 * Hedgerow#transaction()}; {@link Hedgerow#transact} repeats one until it commits.
 *
 * <p>An iterator reads ahead, so a serializable transaction depends on up to a block of entries
 * behind the last one that it has taken.
 */
public final class Transaction extends IndexedBatch {
    private final boolean sync;

    Transaction(Hedgerow db, long handle, boolean sync) {
        super(db, handle);
        this.sync = sync;
    }

    /**
     * Commits all writes or none, and closes the transaction.
     *
     * @throws ConflictException if another write came first; it names a keyspace and a key
     */
    @Override
    public void commit() {
        commit(sync);
    }

    /** The guarantee about what others write meanwhile, and other options. Immutable. */
    public static final class Options {
        private static final long MEMORY_BYTES = 64 << 20;

        final boolean snapshotIsolation;
        final boolean sync;
        final long memoryBytesMax;
        final int attemptsMax;

        private Options(
                boolean snapshotIsolation, boolean sync, long memoryBytesMax, int attemptsMax) {
            this.snapshotIsolation = snapshotIsolation;
            this.sync = sync;
            this.memoryBytesMax = memoryBytesMax;
            this.attemptsMax = attemptsMax;
        }

        /** Serializable, buffered, at most 64 MiB of memory and 100 attempts. */
        public static Options serializable() {
            return new Options(false, false, MEMORY_BYTES, 100);
        }

        /** As {@link #serializable}, but only keys that are written can conflict. */
        public static Options snapshotIsolation() {
            return new Options(true, false, MEMORY_BYTES, 100);
        }

        /** These options with a commit that is durable when it returns. */
        public Options synced() {
            return new Options(snapshotIsolation, true, memoryBytesMax, attemptsMax);
        }

        /** These options with other bytes of memory for writes and for the record of reads. */
        public Options memoryBytesMax(long bytes) {
            return new Options(snapshotIsolation, sync, bytes, attemptsMax);
        }

        /** These options with other attempts of {@link Hedgerow#transact}, at least 1. */
        public Options attemptsMax(int attempts) {
            return new Options(snapshotIsolation, sync, memoryBytesMax, attempts);
        }
    }
}
