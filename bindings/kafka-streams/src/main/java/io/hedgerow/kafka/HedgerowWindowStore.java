package io.hedgerow.kafka;

import java.util.Objects;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.streams.state.WindowStoreIterator;
import org.apache.kafka.streams.state.internals.WindowKeySchema;

/** A window store. One that retains duplicates gives each value of a window a sequence number. */
class HedgerowWindowStore extends SegmentedStore implements WindowStore<Bytes, byte[]> {
    private final long size;
    private final boolean retainDuplicates;
    private int sequence;

    HedgerowWindowStore(WindowSupplier of) {
        super(
                of.name(),
                SegmentKeys.WINDOW,
                of.retentionPeriod(),
                of.segmentIntervalMs(),
                of.isTimeIndexed());
        size = of.windowSize();
        retainDuplicates = of.retainDuplicates();
    }

    /** A store whose values begin with a timestamp. */
    static class Timestamped extends HedgerowWindowStore implements TimestampedBytesStore {
        Timestamped(WindowSupplier of) {
            super(of);
        }
    }

    /** A store whose values begin with headers and a timestamp. */
    static final class WithHeaders extends Timestamped implements HeadersBytesStore {
        WithHeaders(WindowSupplier of) {
            super(of);
        }
    }

    @Override
    public void put(Bytes key, byte[] value, long start) {
        Objects.requireNonNull(key, "key cannot be null");
        if (value == null && retainDuplicates) {
            // Streams' stores do not know which of the duplicates to delete, either.
            return;
        }
        if (retainDuplicates) {
            sequence = (sequence + 1) & Integer.MAX_VALUE;
        }
        put(WindowKeySchema.toStoreKeyBinary(key, start, sequence), value);
    }

    @Override
    public byte[] fetch(Bytes key, long start) {
        Objects.requireNonNull(key, "key cannot be null");
        return get(WindowKeySchema.toStoreKeyBinary(key, start, sequence));
    }

    @Override
    public WindowStoreIterator<byte[]> fetch(Bytes key, long from, long to) {
        return new Mapped.Windows(fetch(key, from, to, true));
    }

    @Override
    public WindowStoreIterator<byte[]> backwardFetch(Bytes key, long from, long to) {
        return new Mapped.Windows(fetch(key, from, to, false));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetch(
            Bytes keyFrom, Bytes keyTo, long from, long to) {
        return windows(fetch(keyFrom, keyTo, from, to, true));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetch(
            Bytes keyFrom, Bytes keyTo, long from, long to) {
        return windows(fetch(keyFrom, keyTo, from, to, false));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> fetchAll(long from, long to) {
        return windows(fetch(null, null, from, to, true));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardFetchAll(long from, long to) {
        return windows(fetch(null, null, from, to, false));
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> all() {
        return fetchAll(0, Long.MAX_VALUE);
    }

    @Override
    public KeyValueIterator<Windowed<Bytes>, byte[]> backwardAll() {
        return backwardFetchAll(0, Long.MAX_VALUE);
    }

    private KeyValueIterator<Windowed<Bytes>, byte[]> windows(
            KeyValueIterator<Bytes, byte[]> entries) {
        return new Mapped<>(entries, it -> WindowKeySchema.fromStoreBytesKey(it, size));
    }
}
