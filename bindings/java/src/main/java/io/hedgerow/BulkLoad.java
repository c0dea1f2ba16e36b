package io.hedgerow;

import java.time.Instant;

/**
 * A load of sorted entries into the tables of a keyspace. Made by {@link Keyspace#bulkLoad}. Keys
 * ascend, and none comes twice. {@link #finish} makes all entries visible and durable together; closed
 * without it, the load leaves nothing. For one thread at a time.
 *
 * <p>Entries gather in Java and cross many at a time, so a refused one is reported by a later call.
 */
public final class BulkLoad implements AutoCloseable {
    private static final int GATHERED_BYTES = 256 << 10;

    private final Packer packed = new Packer(GATHERED_BYTES + (4 << 10));
    final Call<Report> loading;
    private final Ref ref;

    BulkLoad(Keyspace keyspace) {
        long[] handle = new long[1];
        loading =
                Calls.start(
                        id -> handle[0] = begin0(id, keyspace.ref.get()), Report::new, null);
        ref = new Ref(this, Ref.LOAD, handle[0]);
    }

    /** Gives a key a value. */
    public void put(byte[] key, byte[] value) {
        add(packed.add(Writes.PUT).add(key).add(value));
    }

    /** Gives a key a value until a moment, to the millisecond. */
    public void put(byte[] key, byte[] value, Instant until) {
        packed.add(Writes.PUT_EXPIRING).add((byte) Expiry.AT).add(until.toEpochMilli());
        add(packed.add(key).add(value));
    }

    /** Deletes a key. */
    public void delete(byte[] key) {
        add(packed.add(Writes.DELETE).add(key));
    }

    /** Adds an operand for the keyspace's merge operator. */
    public void merge(byte[] key, byte[] operand) {
        add(packed.add(Writes.MERGE).add(key).add(operand));
    }

    private void add(Packer entries) {
        if (entries.length >= GATHERED_BYTES) {
            flush();
        }
    }

    private void flush() {
        int bytes = packed.length;
        packed.length = 0;
        if (add0(ref.get(), packed.array, bytes) == 0) {
            ref.close();
            loading.await();
        }
    }

    /**
     * Ends the load. What it has loaded is visible and durable when this returns.
     *
     * @throws IllegalArgumentException if a key is not above the one before
     */
    public Report finish() {
        flush();
        long handle = ref.get();
        ref.forget();
        end0(handle);
        return loading.await();
    }

    /** Gives the load up, unless it is finished. */
    @Override
    public void close() {
        ref.close();
    }

    /** The result of a load. */
    public static final class Report {
        private final long entries;
        private final long bytes;
        private final long tables;

        Report(byte[] packed) {
            Unpacker numbers = new Unpacker(packed);
            entries = numbers.nextLong();
            bytes = numbers.nextLong();
            tables = numbers.nextLong();
        }

        /** The number of entries. */
        public long entries() {
            return entries;
        }

        /** The bytes of the tables. */
        public long bytes() {
            return bytes;
        }

        /** The number of tables. */
        public long tables() {
            return tables;
        }

        @Override
        public String toString() {
            return entries + " entries in " + tables + " tables of " + bytes + " bytes";
        }
    }

    private native long begin0(long id, long keyspace);

    private native int add0(long load, byte[] packed, int bytes);

    private native int end0(long load);
}
