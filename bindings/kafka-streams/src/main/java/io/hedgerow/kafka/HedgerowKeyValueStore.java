package io.hedgerow.kafka;

import io.hedgerow.Batch;
import io.hedgerow.KeyRange;
import io.hedgerow.Keyspace;
import java.util.Collection;
import java.util.List;
import java.util.Objects;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.RangeQuery;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A key-value store: a keyspace of the database of its process. Writes go through. */
abstract class HedgerowKeyValueStore extends HedgerowStore implements KeyValueStore<Bytes, byte[]> {
    private static final Logger LOG = LoggerFactory.getLogger(HedgerowKeyValueStore.class);

    private Keyspace keyspace;

    HedgerowKeyValueStore(String name) {
        super(name);
    }

    /** A store of bare values, which the DSL puts under an adapter that adds timestamps. */
    static final class Plain extends HedgerowKeyValueStore {
        Plain(String name) {
            super(name);
        }

        @Override
        public <R> QueryResult<R> query(Query<R> query, PositionBound bound, QueryConfig config) {
            QueryResult<R> result = super.query(query, bound, config);
            return query instanceof RangeQuery && result.isSuccess()
                    ? RocksDbRanges.cast(result)
                    : result;
        }
    }

    /** A store whose values begin with a timestamp. */
    static final class Timestamped extends HedgerowKeyValueStore implements TimestampedBytesStore {
        Timestamped(String name) {
            super(name);
        }
    }

    /** A store whose values begin with headers and a timestamp. */
    static final class WithHeaders extends HedgerowKeyValueStore implements HeadersBytesStore {
        WithHeaders(String name) {
            super(name);
        }
    }

    @Override
    void openKeyspaces(String prefix) {
        keyspace = database.keyspace(prefix, name);
    }

    @Override
    Collection<Keyspace> keyspaces() {
        return List.of(keyspace);
    }

    @Override
    void restore(Batch batch, byte[] key, byte[] value) {
        add(batch, keyspace, key, value);
    }

    // ---- writes ----

    @Override
    public void put(Bytes key, byte[] value) {
        Objects.requireNonNull(key, "key cannot be null");
        write(() -> {
            if (value == null) {
                keyspace.delete(key.get());
            } else {
                keyspace.put(key.get(), value);
            }
            return null;
        });
    }

    @Override
    public byte[] putIfAbsent(Bytes key, byte[] value) {
        Objects.requireNonNull(key, "key cannot be null");
        return value == null
                ? get(key)
                : write(() -> keyspace.putIfAbsent(key.get(), value));
    }

    @Override
    public void putAll(List<KeyValue<Bytes, byte[]>> entries) {
        write(() -> {
            Batch batch = database.database().batch();
            for (KeyValue<Bytes, byte[]> entry : entries) {
                Objects.requireNonNull(entry.key, "key cannot be null");
                add(batch, keyspace, entry.key.get(), entry.value);
            }
            batch.commit();
            return null;
        });
    }

    @Override
    public byte[] delete(Bytes key) {
        Objects.requireNonNull(key, "key cannot be null");
        return write(() -> keyspace.getAndDelete(key.get()));
    }

    // ---- reads ----

    @Override
    public byte[] get(Bytes key) {
        Objects.requireNonNull(key, "key cannot be null");
        return call(() -> keyspace.get(key.get()));
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> range(Bytes from, Bytes to) {
        return range(from, to, false);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> reverseRange(Bytes from, Bytes to) {
        return range(from, to, true);
    }

    private KeyValueIterator<Bytes, byte[]> range(Bytes from, Bytes to, boolean reverse) {
        if (from != null && to != null && from.compareTo(to) > 0) {
            LOG.warn(Ranges.INVALID);
            return Ranges.empty();
        }
        KeyRange range = Ranges.of(from, to);
        return iterate(reverse ? range.reversed() : range);
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> all() {
        return iterate(KeyRange.all());
    }

    @Override
    public KeyValueIterator<Bytes, byte[]> reverseAll() {
        return iterate(KeyRange.all().reversed());
    }

    @Override
    public <PS extends Serializer<P>, P> KeyValueIterator<Bytes, byte[]> prefixScan(
            P prefix, PS serializer) {
        Objects.requireNonNull(prefix, "prefix cannot be null");
        Objects.requireNonNull(serializer, "prefixKeySerializer cannot be null");
        return iterate(KeyRange.prefix(serializer.serialize(null, prefix)));
    }

    private KeyValueIterator<Bytes, byte[]> iterate(KeyRange range) {
        return call(() -> new StoreIterator(this, keyspace.iterate(range)));
    }

    @Override
    public long approximateNumEntries() {
        return call(() -> keyspace.approximateEntries(KeyRange.all()));
    }
}
