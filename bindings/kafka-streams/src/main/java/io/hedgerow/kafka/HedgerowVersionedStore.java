package io.hedgerow.kafka;

import io.hedgerow.Batch;
import io.hedgerow.Keyspace;
import io.hedgerow.Snapshot;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.query.MultiVersionedKeyQuery;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.ResultOrder;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.VersionedRecordIterator;
import org.apache.kafka.streams.state.internals.StoreQueryUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A versioned key-value store. One keyspace has the latest value of each key with its time. An
 * older version is in the segment of the time at which its validity ends, so a segment that has
 * expired has nothing that can still be asked. A put writes all that it changes in one batch.
 */
final class HedgerowVersionedStore extends HedgerowStore
        implements VersionedKeyValueStore<Bytes, byte[]> {
    private static final Logger LOG = LoggerFactory.getLogger(HedgerowVersionedStore.class);

    /** Bytes of a batch of a restore. */
    private static final long RESTORED_BYTES = 4 << 20;

    private final long history;
    private final long interval;
    private Keyspace latest;
    private Segments segments;
    private Dropped dropped;
    private volatile long streamTime = ConsumerRecord.NO_TIMESTAMP;

    HedgerowVersionedStore(String name, long history, long interval) {
        super(name);
        this.history = history;
        this.interval = interval;
    }

    @Override
    void openKeyspaces(String prefix) {
        dropped = new Dropped(context);
        latest = database.keyspace(prefix, name);
        segments = new Segments(database, name, prefix, history, interval);
    }

    @Override
    String format() {
        return "versions, segments of " + interval + " ms";
    }

    @Override
    String longestEnd() {
        return Segments.LONGEST_END;
    }

    @Override
    Collection<Keyspace> keyspaces() {
        List<Keyspace> all = new ArrayList<>(segments.all());
        all.add(latest);
        return all;
    }

    // ---- writes ----

    @Override
    public long put(Bytes key, byte[] value, long time) {
        Objects.requireNonNull(key, "key cannot be null");
        return write(() -> {
            if (tooLate(time)) {
                return PUT_RETURN_CODE_NOT_PUT;
            }
            streamTime = Math.max(streamTime, time);
            Changes changes = new Changes();
            long validTo = new Put(changes, streamTime, key).put(value, time);
            changes.commit();
            return validTo;
        });
    }

    @Override
    public VersionedRecord<byte[]> delete(Bytes key, long time) {
        Objects.requireNonNull(key, "key cannot be null");
        VersionedRecord<byte[]> existing = time < oldest() ? null : get(key, time);
        put(key, null, time);
        return existing;
    }

    private boolean tooLate(long time) {
        if (time >= oldest()) {
            return false;
        }
        LOG.debug("A record of store {} at {} comes too late", name, time);
        dropped.count();
        return true;
    }

    private long oldest() {
        return streamTime - history;
    }

    /** Rows that are to be written together, and are read before they are. */
    private final class Changes {
        private final Map<Keyspace, Map<Bytes, byte[]>> rows = new HashMap<>();
        private long bytes;

        byte[] get(Keyspace keyspace, Bytes key) {
            Map<Bytes, byte[]> changed = rows.getOrDefault(keyspace, Map.of());
            return changed.containsKey(key) ? changed.get(key) : keyspace.get(key.get());
        }

        /** Sets a row; null deletes it. */
        void set(Keyspace keyspace, Bytes key, byte[] row) {
            rows.computeIfAbsent(keyspace, it -> new HashMap<>()).put(key, row);
            bytes += key.get().length + (row == null ? 0 : row.length);
        }

        void commit() {
            Batch batch = database.database().batch();
            rows.forEach(
                    (keyspace, changed) ->
                            changed.forEach((key, row) -> add(batch, keyspace, key.get(), row)));
            batch.commit();
            rows.clear();
            bytes = 0;
        }
    }

    /** A put: changes the rows of a key that it concerns. */
    private final class Put {
        private final Changes changes;
        private final long now;
        private final Bytes key;
        private final Map<Keyspace, Versions> rows = new HashMap<>();

        /**
         * A put.
         *
         * @param now the stream time by which segments expire
         */
        Put(Changes changes, long now, Bytes key) {
            this.changes = changes;
            this.now = now;
            this.key = key;
        }

        /** Puts a version and returns the end of its validity. */
        long put(byte[] value, long time) {
            segments.expire(now);
            long validTo = insert(value, time);
            rows.forEach((segment, row) -> {
                if (row.changed) {
                    changes.set(segment, key, row.row());
                }
            });
            return validTo;
        }

        private long insert(byte[] value, long time) {
            byte[] newest = changes.get(latest, key);
            if (newest != null && time(newest) <= time) {
                if (time(newest) < time) {
                    add(time(newest), time, value(newest));
                }
                return setLatest(value, time);
            }
            for (Keyspace segment : segments.between(time, Long.MAX_VALUE, true)) {
                Versions row = row(segment);
                Versions.Version next = row.endingAfter(time);
                if (next != null && next.from > time) {
                    return add(time, next.from, value);
                }
                if (next != null) {
                    row.remove(next);
                    row.add(new Versions.Version(time, next.to, value));
                    if (next.from < time) {
                        add(next.from, time, next.value);
                    }
                    return next.to;
                }
            }
            return newest == null ? setLatest(value, time) : add(time, time(newest), value);
        }

        private long setLatest(byte[] value, long time) {
            if (value != null) {
                changes.set(latest, key, latestRow(value, time));
                return PUT_RETURN_CODE_VALID_TO_UNDEFINED;
            }
            changes.set(latest, key, null);
            Keyspace segment = segments.forWriting(time, now);
            if (segment == null) {
                return PUT_RETURN_CODE_NOT_PUT;
            }
            if (!row(segment).hasEnd(time)) {
                row(segment).add(new Versions.Version(time, time, null));
            }
            return PUT_RETURN_CODE_VALID_TO_UNDEFINED;
        }

        private long add(long from, long to, byte[] value) {
            Keyspace segment = segments.forWriting(to, now);
            if (segment == null) {
                return PUT_RETURN_CODE_NOT_PUT;
            }
            row(segment).add(new Versions.Version(from, to, value));
            return to;
        }

        private Versions row(Keyspace segment) {
            return rows.computeIfAbsent(segment, it -> Versions.of(changes.get(it, key)));
        }
    }

    private static byte[] latestRow(byte[] value, long time) {
        return ByteBuffer.allocate(Long.BYTES + value.length).putLong(time).put(value).array();
    }

    private static long time(byte[] latest) {
        return ByteBuffer.wrap(latest).getLong();
    }

    private static byte[] value(byte[] latest) {
        return Arrays.copyOfRange(latest, Long.BYTES, latest.length);
    }

    /** Segments that will have expired at the end of the records are not written. */
    @Override
    void restore(Collection<ConsumerRecord<byte[], byte[]>> records) {
        long now = streamTime;
        for (ConsumerRecord<byte[], byte[]> record : records) {
            now = Math.max(now, record.timestamp());
        }
        Changes changes = new Changes();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            if (record.timestamp() < oldest()) {
                continue;
            }
            streamTime = Math.max(streamTime, record.timestamp());
            restored(record);
            new Put(changes, now, Bytes.wrap(record.key())).put(record.value(), record.timestamp());
            if (changes.bytes >= RESTORED_BYTES) {
                changes.commit();
            }
        }
        changes.commit();
    }

    @Override
    void restore(Batch batch, byte[] key, byte[] value) {
        throw new UnsupportedOperationException("records of a versioned store need their time");
    }

    // ---- reads ----

    @Override
    public VersionedRecord<byte[]> get(Bytes key) {
        Objects.requireNonNull(key, "key cannot be null");
        byte[] row = call(() -> latest.get(key.get()));
        return row == null ? null : new VersionedRecord<>(value(row), time(row));
    }

    @Override
    public VersionedRecord<byte[]> get(Bytes key, long asOf) {
        VersionedRecord<byte[]> newest = get(key);
        if (newest != null && newest.timestamp() <= asOf) {
            return newest;
        }
        if (asOf < oldest()) {
            return null;
        }
        for (Keyspace segment : segments.between(asOf, Long.MAX_VALUE, true)) {
            Versions row = Versions.of(call(() -> segment.get(key.get())));
            Versions.Version version = row.endingAfter(asOf);
            if (version != null) {
                return version.from <= asOf && version.value != null ? record(version) : null;
            }
        }
        return null;
    }

    private static VersionedRecord<byte[]> record(Versions.Version version) {
        return new VersionedRecord<>(version.value, version.from, version.to);
    }

    /**
     * The versions of a key that are valid at some moment between two, at one state of the store.
     */
    private List<VersionedRecord<byte[]>> get(Bytes key, long from, long to, ResultOrder order) {
        List<VersionedRecord<byte[]>> found = new ArrayList<>();
        try (Snapshot snapshot = database.database().snapshot()) {
            if (to >= oldest()) {
                for (Keyspace segment : segments.all()) {
                    Versions.of(snapshot.view(segment).get(key.get())).versions.stream()
                            .filter(it -> it.value != null && it.from <= to && it.to > from)
                            .forEach(it -> found.add(record(it)));
                }
            }
            byte[] newest = snapshot.view(latest).get(key.get());
            if (newest != null && time(newest) <= to) {
                found.add(new VersionedRecord<>(value(newest), time(newest)));
            }
        }
        if (order != ResultOrder.ASCENDING) {
            Collections.reverse(found);
        }
        return found;
    }

    /** Streams' helper for queries knows versions of a range in its own store only. */
    @Override
    @SuppressWarnings("unchecked")
    public <R> QueryResult<R> query(Query<R> query, PositionBound bound, QueryConfig config) {
        if (!(query instanceof MultiVersionedKeyQuery)) {
            return super.query(query, bound, config);
        }
        MultiVersionedKeyQuery<Bytes, byte[]> asked = (MultiVersionedKeyQuery<Bytes, byte[]>) query;
        int partition = context.taskId().partition();
        return answer(config, () -> {
            if (!StoreQueryUtils.isPermitted(getPosition(), bound, partition)) {
                return QueryResult.notUpToBound(getPosition(), bound, partition);
            }
            long from = asked.fromTime().get().toEpochMilli();
            long to = asked.toTime().get().toEpochMilli();
            Iterator<VersionedRecord<byte[]>> found =
                    call(() -> get(asked.key(), from, to, asked.resultOrder())).iterator();
            return (QueryResult<R>) QueryResult.forResult(new Found(found));
        });
    }

    private static final class Found implements VersionedRecordIterator<byte[]> {
        private final Iterator<VersionedRecord<byte[]>> records;
        private boolean closed;

        Found(Iterator<VersionedRecord<byte[]>> records) {
            this.records = records;
        }

        @Override
        public boolean hasNext() {
            if (closed) {
                throw new IllegalStateException("the iterator is closed");
            }
            return records.hasNext();
        }

        @Override
        public VersionedRecord<byte[]> next() {
            return records.next();
        }

        @Override
        public void close() {
            closed = true;
        }
    }
}
