package io.hedgerow.kafka;

import io.hedgerow.Batch;
import io.hedgerow.HedgerowException;
import io.hedgerow.KeyRange;
import io.hedgerow.Keyspace;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsConfig.InternalConfig;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.internals.ChangelogRecordDeserializationHelper;
import org.apache.kafka.streams.processor.internals.RecordBatchingStateRestoreCallback;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.internals.StoreQueryUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A key-value store: a keyspace of the database of its process. Writes go through. */
class HedgerowKeyValueStore implements KeyValueStore<Bytes, byte[]> {
    private static final Logger LOG = LoggerFactory.getLogger(HedgerowKeyValueStore.class);

    /** Bytes of a batch of a restore. */
    private static final int RESTORED_BYTES = 4 << 20;

    final String name;
    private final Set<KeyValueIterator<Bytes, byte[]>> iterators = ConcurrentHashMap.newKeySet();

    private StateStoreContext context;
    private boolean consistencyEnabled;
    private ProcessDatabase database;
    private StoreIdentity identity;
    private Keyspace keyspace;
    private Position position = Position.emptyPosition();
    private volatile boolean open;

    HedgerowKeyValueStore(String name) {
        this.name = name;
    }

    // ---- life ----

    @Override
    public void init(StateStoreContext context, StateStore root) {
        this.context = context;
        consistencyEnabled =
                InternalConfig.getBoolean(
                        context.appConfigs(),
                        InternalConfig.IQ_CONSISTENCY_OFFSET_VECTOR_ENABLED,
                        false);
        database = ProcessDatabase.open(context);
        try {
            identity = StoreIdentity.open(database, context, name);
            keyspace = database.keyspace(identity.keyspaceName());
            position = identity.position();
        } catch (RuntimeException e) {
            database.close();
            throw e;
        }
        open = true;
        context.register(
                root,
                (RecordBatchingStateRestoreCallback) this::restore,
                this::savePosition);
    }

    @Override
    public synchronized void close() {
        if (!open) {
            return;
        }
        open = false;
        Set<KeyValueIterator<Bytes, byte[]>> left = new HashSet<>(iterators);
        if (!left.isEmpty()) {
            LOG.warn("Closing {} open iterators for store {}", left.size(), name);
            left.forEach(KeyValueIterator::close);
        }
        identity.close(position);
        database.close();
    }

    @Override
    public String name() {
        return name;
    }

    @Override
    public boolean persistent() {
        return true;
    }

    @Override
    public boolean isOpen() {
        return open;
    }

    private void checkOpen() {
        if (!open) {
            throw new InvalidStateStoreException("Store " + name + " is currently closed");
        }
    }

    /** Makes a call to the database, and turns its failures into those that Streams knows. */
    private <T> T call(Supplier<T> body) {
        checkOpen();
        try {
            return body.get();
        } catch (IllegalStateException e) {
            throw new InvalidStateStoreException("Store " + name + " is currently closed", e);
        } catch (HedgerowException e) {
            throw new ProcessorStateException("Error in store " + name + ": " + e.getMessage(), e);
        }
    }

    /** Makes a call that writes the record of the context. */
    private <T> T write(Supplier<T> body) {
        synchronized (position) {
            T result = call(body);
            StoreQueryUtils.updatePosition(position, context);
            return result;
        }
    }

    // ---- offsets ----

    @Override
    @SuppressWarnings("deprecation")
    public boolean managesOffsets() {
        return true;
    }

    @Override
    public synchronized void commit(Map<TopicPartition, Long> offsets) {
        if (open) {
            synchronized (position) {
                identity.commit(offsets, position);
            }
        }
    }

    private synchronized void savePosition() {
        checkOpen();
        synchronized (position) {
            identity.savePosition(position);
        }
    }

    @Override
    public Long committedOffset(TopicPartition partition) {
        return call(() -> identity.committedOffset(partition));
    }

    @Override
    public Position getPosition() {
        return position;
    }

    private void restore(Collection<ConsumerRecord<byte[], byte[]>> records) {
        synchronized (position) {
            call(() -> {
                Batch batch = database.database().batch();
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    ChangelogRecordDeserializationHelper.applyChecksAndUpdatePosition(
                            record, consistencyEnabled, position);
                    add(batch, record.key(), record.value());
                    if (batch.bytes() >= RESTORED_BYTES) {
                        batch.commit();
                    }
                }
                batch.commit();
                return null;
            });
        }
    }

    private void add(Batch batch, byte[] key, byte[] value) {
        if (value == null) {
            batch.delete(keyspace, key);
        } else {
            batch.put(keyspace, key, value);
        }
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
                add(batch, entry.key.get(), entry.value);
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
        return call(() -> new StoreIterator(name, keyspace.iterate(range), iterators));
    }

    @Override
    public long approximateNumEntries() {
        return call(() -> keyspace.approximateEntries(KeyRange.all()));
    }

    @Override
    public <R> QueryResult<R> query(Query<R> query, PositionBound bound, QueryConfig config) {
        return StoreQueryUtils.handleBasicQueries(query, bound, config, this, position, context);
    }
}
