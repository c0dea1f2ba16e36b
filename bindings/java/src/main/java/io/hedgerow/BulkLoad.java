package io.hedgerow;

import java.time.Instant;
import java.util.function.IntSupplier;

/**
 * A load of sorted entries into the tables of a keyspace. Made by {@link Keyspace#bulkLoad}. Keys
 * ascend, and none comes twice. {@link #finish} makes all entries visible and durable together;
 * closed without it, the load leaves nothing. For one thread at a time.
 *
 * <p>Entries gather in Java and cross many at a time, so a refused one is reported by a later call.
 * A call that waits for room is ended by an interrupt with an {@link InterruptedCallException}: it
 * has not taken its entry, and can be made again.
 */
public final class BulkLoad implements AutoCloseable {
    private static final int GATHERED_BYTES = 256 << 10;

    /** The results of handing something over; 0 is that the load has ended. */
    private static final int TAKEN = 1;
    private static final int FULL = 2;

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
        begin(Writes.PUT).add(key).add(value);
    }

    /** Gives a key a value until a moment, to the millisecond. */
    public void put(byte[] key, byte[] value, Instant until) {
        Packer entry = begin(Writes.PUT_EXPIRING);
        entry.add((byte) Expiry.AT).add(until.toEpochMilli()).add(key).add(value);
    }

    /** Deletes a key. */
    public void delete(byte[] key) {
        begin(Writes.DELETE).add(key);
    }

    /** Adds an operand for the keyspace's merge operator. */
    public void merge(byte[] key, byte[] operand) {
        begin(Writes.MERGE).add(key).add(operand);
    }

    /** Begins an entry, with room for it. */
    private Packer begin(byte kind) {
        if (packed.length >= GATHERED_BYTES) {
            flush();
        }
        return packed.add(kind);
    }

    private void flush() {
        handOver(() -> add0(ref.get(), packed.array, packed.length));
        packed.length = 0;
    }

    /** Waits while the load has no room. An interrupt leaves here what was to be handed over. */
    private void handOver(IntSupplier send) {
        int result;
        while ((result = send.getAsInt()) == FULL) {
            loading.awaitFor(1);
        }
        if (result != TAKEN) {
            // The answer says why.
            ref.close();
            loading.await();
        }
    }

    /**
     * Ends the load. What it has loaded is visible and durable when this returns.
     *
     * @throws IllegalArgumentException if a key is not above the one before
     * @throws InterruptedCallException if the thread is interrupted; a load that waits to be
     *     durable goes on in the background
     */
    public Report finish() {
        flush();
        handOver(() -> end0(ref.get()));
        ref.close();
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
