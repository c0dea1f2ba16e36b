package io.hedgerow;

/**
 * The state of all keyspaces at one moment. It stays readable whatever is written after, and keeps
 * what merges would remove, so close it. Iterators that it has opened outlive it.
 */
public final class Snapshot implements AutoCloseable {
    private final Hedgerow db;
    private final Ref ref;

    Snapshot(Hedgerow db, long handle) {
        this.db = db;
        ref = new Ref(this, Ref.SNAPSHOT, handle);
    }

    /** The entries of a keyspace. */
    public ReadView view(Keyspace keyspace) {
        return new View(this, keyspace);
    }

    /** The database. */
    public Hedgerow database() {
        return db;
    }

    /** Gives the state up. Later reads of its views are {@link IllegalStateException}. */
    @Override
    public void close() {
        ref.close();
    }

    private static final class View extends ReadView {
        private final Snapshot snapshot;
        private final Keyspace keyspace;

        View(Snapshot snapshot, Keyspace keyspace) {
            this.snapshot = snapshot;
            this.keyspace = keyspace;
        }

        @Override
        int kind() {
            return Ref.SNAPSHOT;
        }

        @Override
        long source() {
            return snapshot.ref.get();
        }

        @Override
        Keyspace keyspace() {
            return keyspace;
        }
    }
}
