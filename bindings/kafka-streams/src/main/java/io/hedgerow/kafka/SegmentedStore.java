package io.hedgerow.kafka;

import io.hedgerow.Batch;
import io.hedgerow.Entry;
import io.hedgerow.EntryIterator;
import io.hedgerow.KeyRange;
import io.hedgerow.Keyspace;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.Iterator;
import java.util.List;
import java.util.Objects;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.internals.CachingWindowStore;
import org.apache.kafka.streams.state.internals.WrappedStateStore;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A store whose entries have a time and expire: a keyspace for each segment. With a time index,
 * another keyspace has the stored keys by their time (8 bytes, then the key), so that those of a
 * short time are found without reading the segments.
 */
abstract class SegmentedStore extends HedgerowStore {
    private static final Logger LOG = LoggerFactory.getLogger(SegmentedStore.class);

    /** Entries of a segment that are found by time; if there are more, the segment is scanned. */
    private static final int FOUND_BY_TIME_MAX = 100_000;

    private final SegmentKeys keys;
    private final long retention;
    private final long interval;
    private final boolean timeIndexed;
    /** Streams' cache for windows stands above the store: it merges its own entries by key. */
    private boolean cached;

    private Segments segments;
    private Keyspace times;
    /** The time up to which the time index was cleared. */
    private long indexedFrom;
    private Dropped dropped;
    private volatile long streamTime = ConsumerRecord.NO_TIMESTAMP;

    SegmentedStore(
            String name, SegmentKeys keys, long retention, long interval, boolean timeIndexed) {
        super(name);
        this.keys = keys;
        this.retention = retention;
        this.interval = interval;
        this.timeIndexed = timeIndexed;
    }

    @Override
    public void init(StateStoreContext context, StateStore root) {
        StateStore above = root;
        while (above instanceof WrappedStateStore && !cached) {
            cached = above instanceof CachingWindowStore;
            above = ((WrappedStateStore<?, ?, ?>) above).wrapped();
        }
        super.init(context, root);
    }

    @Override
    void openKeyspaces(String prefix) {
        dropped = new Dropped(context);
        segments = new Segments(database, name, prefix, retention, interval);
        times = timeIndexed ? database.keyspace(prefix + "~times", name) : null;
    }

    @Override
    String format() {
        String kind = keys == SegmentKeys.WINDOW ? " windows" : " sessions";
        return super.format() + kind + ", segments of " + interval + " ms" + (timeIndexed ? ", times" : "");
    }

    @Override
    String longestEnd() {
        return Segments.LONGEST_END;
    }

    @Override
    Collection<Keyspace> keyspaces() {
        List<Keyspace> all = new ArrayList<>(segments.all());
        if (timeIndexed) {
            all.add(times);
        }
        return all;
    }

    // ---- writes ----

    /** Writes an entry, null to delete it, unless its segment has expired. */
    void put(Bytes stored, byte[] value) {
        long time = keys.time(stored.get());
        streamTime = Math.max(streamTime, time);
        Keyspace segment = call(() -> forWriting(time));
        if (segment == null) {
            LOG.debug("A record of store {} at {} comes too late", name, time);
            dropped.count();
            return;
        }
        write(() -> {
            Batch batch = database.database().batch();
            add(batch, segment, time, stored.get(), value);
            batch.commit();
            return null;
        });
    }

    /** Deletes an entry, which does not create its segment. */
    void delete(Bytes stored) {
        long time = keys.time(stored.get());
        streamTime = Math.max(streamTime, time);
        if (segments.existing(time) != null) {
            put(stored, null);
        }
    }

    private Keyspace forWriting(long time) {
        Keyspace segment = segments.forWriting(time, streamTime);
        if (timeIndexed) {
            long oldest = segments.begin(streamTime - retention);
            if (oldest > indexedFrom) {
                times.deleteRange(KeyRange.all().to(timeKey(oldest)));
                indexedFrom = oldest;
            }
        }
        return segment;
    }

    private void add(Batch batch, Keyspace segment, long time, byte[] stored, byte[] value) {
        add(batch, segment, stored, value);
        if (timeIndexed) {
            byte[] key =
                    ByteBuffer.allocate(Long.BYTES + stored.length).putLong(time).put(stored).array();
            add(batch, times, key, value == null ? null : new byte[0]);
        }
    }

    private static byte[] timeKey(long time) {
        return ByteBuffer.allocate(Long.BYTES).putLong(time).array();
    }

    /** Records that will have expired at the end of them all are left out. */
    @Override
    void restore(Collection<ConsumerRecord<byte[], byte[]>> records) {
        for (ConsumerRecord<byte[], byte[]> record : records) {
            streamTime = Math.max(streamTime, keys.time(record.key()));
        }
        List<ConsumerRecord<byte[], byte[]>> live = new ArrayList<>(records);
        live.removeIf(it -> forWriting(keys.time(it.key())) == null);
        super.restore(live);
    }

    @Override
    void restore(Batch batch, byte[] key, byte[] value) {
        long time = keys.time(key);
        add(batch, segments.existing(time), time, key, value);
    }

    // ---- reads ----

    /** The oldest time that a read shows. One that results of closed windows need stays a bit. */
    private long oldestShown() {
        return streamTime - retention + (timeIndexed && keys == SegmentKeys.WINDOW ? 0 : 1);
    }

    byte[] get(Bytes stored) {
        long time = keys.time(stored.get());
        Keyspace segment = time < oldestShown() ? null : segments.existing(time);
        return segment == null ? null : call(() -> segment.get(stored.get()));
    }

    /**
     * The entries of a range of keys, null for no end, and of times, by segment and then by key.
     * Both ends are included.
     */
    KeyValueIterator<Bytes, byte[]> fetch(
            Bytes keyFrom, Bytes keyTo, long from, long to, boolean forward) {
        if (keyFrom != null && keyTo != null && keyFrom.compareTo(keyTo) > 0) {
            LOG.warn(Ranges.INVALID);
            return Ranges.empty();
        }
        long first = Math.max(from, oldestShown());
        if (keys == SegmentKeys.WINDOW && to < first) {
            return Ranges.empty();
        }
        KeyRange forwards = keys.range(keyFrom, keyTo, first, to);
        KeyRange range = forward ? forwards : forwards.reversed();
        boolean byTime = timeIndexed && keyFrom == null && keyTo == null;
        return new SegmentIterator(
                this,
                segments.between(first, keys.latest(to), forward).iterator(),
                segment ->
                        byTime
                                ? byTime(segment, first, keys.latest(to), range, cached, !forward)
                                : scan(segment, range),
                stored -> keys.contains(stored, keyFrom, keyTo, first, to));
    }

    /** The entries of one key. */
    KeyValueIterator<Bytes, byte[]> fetch(Bytes key, long from, long to, boolean forward) {
        Objects.requireNonNull(key, "key cannot be null");
        return fetch(key, key, from, to, forward);
    }

    private StoreIterator scan(Keyspace segment, KeyRange range) {
        return new StoreIterator(this, segment.iterate(range));
    }

    /** The entries whose time is between two, in its order. The store must have a time index. */
    KeyValueIterator<Bytes, byte[]> fetchByTime(long from, long to) {
        return new SegmentIterator(
                this,
                segments.between(from, to, true).iterator(),
                segment -> byTime(segment, from, to, KeyRange.all(), false, false),
                stored -> from <= keys.time(stored) && keys.time(stored) <= to);
    }

    /**
     * The entries of a segment and a short time; of a long time, all of a range of it, by key.
     *
     * @param byKey true to sort them by key, false by time
     * @param reverse true for the last one first, as the range is
     */
    private Iterator<KeyValue<Bytes, byte[]>> byTime(
            Keyspace segment, long from, long to, KeyRange range, boolean byKey, boolean reverse) {
        List<byte[]> found = new ArrayList<>();
        long first = Math.max(from, segments.begin(segment));
        long last = Math.min(to, segments.end(segment));
        try (EntryIterator indexed = times.iterate(timeRange(first, last))) {
            while (indexed.hasNext()) {
                found.add(stored(indexed.next()));
                if (found.size() > FOUND_BY_TIME_MAX) {
                    return scan(segment, range);
                }
            }
        }
        if (byKey) {
            found.sort(Arrays::compareUnsigned);
        }
        if (reverse) {
            Collections.reverse(found);
        }
        return found.stream()
                .map(it -> KeyValue.pair(Bytes.wrap(it), segment.get(it)))
                .filter(it -> it.value != null)
                .iterator();
    }

    private static KeyRange timeRange(long from, long to) {
        KeyRange range = KeyRange.from(timeKey(Math.max(0, from)));
        return to == Long.MAX_VALUE ? range : range.to(timeKey(to + 1));
    }

    private static byte[] stored(Entry indexed) {
        return Arrays.copyOfRange(indexed.key(), Long.BYTES, indexed.key().length);
    }
}
