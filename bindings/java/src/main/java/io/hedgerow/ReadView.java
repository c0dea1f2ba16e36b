package io.hedgerow;

import java.nio.ByteBuffer;
import java.nio.ReadOnlyBufferException;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * The entries of a keyspace: as they are now ({@link Keyspace}), as they were ({@link
 * Snapshot#view}), or with the writes of a batch ({@link IndexedBatch#view}).
 *
 * <p>Every method may throw {@link IllegalStateException} if what it reads from is closed, and
 * {@link StorageException} or {@link CorruptionException} if it cannot be read.
 */
public abstract class ReadView {
    /** Between so many keys a read of many looks for an interrupt. */
    private static final int KEYS_AT_ONCE = 4096;

    ReadView() {}

    /** The kind of {@link Ref} that {@link #source} is of; 0 for the present. */
    abstract int kind();

    /** The handle of the state that is read. */
    abstract long source();

    abstract Keyspace keyspace();

    private long handle() {
        return keyspace().ref.get();
    }

    /** The value of a key; null if it has none. */
    public byte[] get(byte[] key) {
        return get0(kind(), source(), handle(), key);
    }

    /**
     * Copies the value of a key to a buffer, as much of it as there is room for, and moves the
     * position behind it. Both buffers are direct. The position of the key stays.
     *
     * @return the length of the value; -1 if there is none
     * @throws java.nio.ReadOnlyBufferException if the value's buffer cannot be written
     */
    public int get(ByteBuffer key, ByteBuffer value) {
        if (value.isReadOnly()) {
            throw new ReadOnlyBufferException();
        }
        int length =
                getDirect0(
                        kind(),
                        source(),
                        handle(),
                        direct(key),
                        key.position(),
                        key.remaining(),
                        direct(value),
                        value.position(),
                        value.remaining());
        value.position(value.position() + Math.min(Math.max(length, 0), value.remaining()));
        return length;
    }

    static ByteBuffer direct(ByteBuffer buffer) {
        if (!buffer.isDirect()) {
            throw new IllegalArgumentException("expected a direct buffer, found one on the heap");
        }
        return buffer;
    }

    /** Returns true if a key has a value. Reads no long value. */
    public boolean contains(byte[] key) {
        return contains0(kind(), source(), handle(), key) != 0;
    }

    /**
     * The values of several keys, in their order, null for those without one. Their reads overlap.
     *
     * @throws InterruptedCallException if the thread is interrupted and there are many
     */
    public List<byte[]> multiGet(List<byte[]> keys) {
        List<byte[]> values = new ArrayList<>(keys.size());
        for (int i = 0; i < keys.size(); i += KEYS_AT_ONCE) {
            if (i > 0) {
                checkInterrupt();
            }
            byte[] some = pack(keys.subList(i, Math.min(i + KEYS_AT_ONCE, keys.size())));
            values.addAll(values(multiGet0(kind(), source(), handle(), some)));
        }
        return values;
    }

    private static void checkInterrupt() {
        if (Thread.currentThread().isInterrupted()) {
            throw new InterruptedCallException(new InterruptedException());
        }
    }

    static byte[] pack(List<byte[]> keys) {
        Packer packed = new Packer(32 * keys.size());
        keys.forEach(packed::add);
        return packed.toArray();
    }

    static List<byte[]> values(byte[] packed) {
        List<byte[]> values = new ArrayList<>();
        for (Unpacker unpacker = new Unpacker(packed); unpacker.hasNext(); ) {
            values.add(unpacker.nextBytes());
        }
        return values;
    }

    /**
     * The entries of a range, as they are now.
     *
     * @throws UnsupportedOperationException if the layout of the keyspace has no such ranges
     */
    public EntryIterator iterate(KeyRange range) {
        return EntryIterator.open(this, range);
    }

    /** The first entry of a range in its direction. */
    public Optional<Entry> first(KeyRange range) {
        try (EntryIterator entries = EntryIterator.of(scan(range, 0))) {
            return entries.hasNext() ? Optional.of(entries.next()) : Optional.empty();
        }
    }

    /** The first entry. */
    public Optional<Entry> first() {
        return first(KeyRange.all());
    }

    /** The last entry. */
    public Optional<Entry> last() {
        return first(KeyRange.all().reversed());
    }

    /**
     * The number of entries of a range. Cost: reads all of its keys.
     *
     * @throws InterruptedCallException if the thread is interrupted and there are many
     */
    public long count(KeyRange range) {
        byte[] first = count0(kind(), source(), handle(), range.from, range.to, range.flags);
        Unpacker counted = new Unpacker(first);
        long count = counted.nextLong();
        long handle = counted.nextLong();
        return handle == 0 ? count : count + countOn(new Ref(this, Ref.ITERATOR, handle));
    }

    private long countOn(Ref rest) {
        try {
            long count = 0;
            while (true) {
                checkInterrupt();
                Unpacker counted = new Unpacker(countOn0(rest.get()));
                count += counted.nextLong();
                if (counted.nextLong() == 0) {
                    rest.forget();
                    return count;
                }
            }
        } finally {
            rest.close();
        }
    }

    byte[] scan(KeyRange range, int bytesMax) {
        return scan0(kind(), source(), handle(), range.from, range.to, range.flags, bytesMax);
    }

    private native byte[] get0(int kind, long source, long keyspace, byte[] key);

    private native int getDirect0(
            int kind,
            long source,
            long keyspace,
            ByteBuffer key,
            int keyAt,
            int keyBytes,
            ByteBuffer value,
            int valueAt,
            int valueBytes);

    private native int contains0(int kind, long source, long keyspace, byte[] key);

    private native byte[] multiGet0(int kind, long source, long keyspace, byte[] keys);

    private native byte[] scan0(
            int kind, long source, long keyspace, byte[] from, byte[] to, int flags, int bytesMax);

    private native byte[] count0(
            int kind, long source, long keyspace, byte[] from, byte[] to, int flags);

    private native byte[] countOn0(long rest);
}
