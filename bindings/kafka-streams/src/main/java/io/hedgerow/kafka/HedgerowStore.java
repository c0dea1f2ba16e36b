package io.hedgerow.kafka;

import io.hedgerow.Batch;
import io.hedgerow.CorruptionException;
import io.hedgerow.HedgerowException;
import io.hedgerow.Keyspace;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.Sensor;
import org.apache.kafka.streams.StreamsConfig.InternalConfig;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.errors.ProcessorStateException;
import org.apache.kafka.streams.errors.StreamsException;
import org.apache.kafka.streams.errors.TaskCorruptedException;
import org.apache.kafka.streams.errors.TaskMigratedException;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.StateStoreContext;
import org.apache.kafka.streams.processor.internals.ChangelogRecordDeserializationHelper;
import org.apache.kafka.streams.processor.internals.ProcessorContextUtils;
import org.apache.kafka.streams.processor.internals.RecordBatchingStateRestoreCallback;
import org.apache.kafka.streams.processor.internals.metrics.TaskMetrics;
import org.apache.kafka.streams.query.FailureReason;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.state.HeadersBytesStore;
import org.apache.kafka.streams.state.TimestampedBytesStore;
import org.apache.kafka.streams.state.internals.StoreQueryUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The part that all stores have in common: life, offsets, position, restore, metrics. */
abstract class HedgerowStore implements StateStore {
    private static final Logger LOG = LoggerFactory.getLogger(HedgerowStore.class);

    /** Bytes of a batch of a restore. */
    private static final int RESTORED_BYTES = 4 << 20;
    /** Writes between looks at the clock. Under exactly-once Streams tells stores of no commit. */
    private static final int SWEPT_WRITES = 1000;
    /** Bytes of the names of keyspaces that the engine takes. */
    private static final int NAME_BYTES_MAX = 255;
    /** Bytes of an identity and of the points around the name of a store. */
    private static final int IDENTITY_BYTES = 38;

    final String name;
    private final Set<AutoCloseable> iterators = ConcurrentHashMap.newKeySet();

    StateStoreContext context;
    ProcessDatabase database;
    private boolean consistencyEnabled;
    private StoreIdentity identity;
    private StoreMetrics metrics;
    private Position position = Position.emptyPosition();
    /**
     * True since Streams has asked for an offset, or has written. A commit before that hands over
     * the offsets of a file of before 4.3, which may be those of another store.
     */
    private boolean begun;

    private int writes;

    private volatile boolean open;
    /** The damage for which the state was given up, by whichever thread found it. */
    private volatile CorruptionException damage;

    HedgerowStore(String name) {
        this.name = name;
    }

    /**
     * Opens the keyspaces, whose names begin with a prefix. An open store is registered afterwards.
     *
     * @param prefix the name of the store in the database
     */
    abstract void openKeyspaces(String prefix);

    /** The format of the data. A store of another format cannot read it. */
    String format() {
        return this instanceof HeadersBytesStore
                ? "headers"
                : this instanceof TimestampedBytesStore ? "timestamped" : "plain";
    }

    /** The longest end of the name of a keyspace, behind the prefix. */
    String longestEnd() {
        return "";
    }

    /** The keyspaces at this moment. */
    abstract Collection<Keyspace> keyspaces();

    /** Adds a record of the changelog to a batch. */
    abstract void restore(Batch batch, byte[] key, byte[] value);

    // ---- life ----

    @Override
    public void init(StateStoreContext context, StateStore root) {
        this.context = context;
        consistencyEnabled =
                InternalConfig.getBoolean(
                        context.appConfigs(),
                        InternalConfig.IQ_CONSISTENCY_OFFSET_VECTOR_ENABLED,
                        false);
        identity = null;
        damage = null;
        try {
            open(context);
        } catch (CorruptionException e) {
            // Without an identity it is the offsets of all stores that are damaged. The next
            // process that opens the database sees that, and replaces it.
            throw identity == null || isForeign(e) ? failed(e) : corrupted(e);
        } catch (HedgerowException e) {
            throw failed(e);
        }
        begun = false;
        open = true;
        metrics = StoreMetrics.register(context, this);
        context.register(
                root, (RecordBatchingStateRestoreCallback) this::restoreAll, this::savePosition);
    }

    private void open(StateStoreContext context) {
        checkName(context);
        database = ProcessDatabase.open(context);
        try {
            identity = identify(context);
            openKeyspaces(identity.keyspaceName());
            position = identity.position();
        } catch (RuntimeException e) {
            leaveDatabase();
            throw e;
        }
    }

    /** Finds the state, and has it known to the other stores that it is open. */
    private StoreIdentity identify(StateStoreContext context) {
        StoreIdentity found =
                attempt(() -> StoreIdentity.open(database, context, name, format()));
        database.add(found.keyspaceName(), this);
        if (found.isLive()) {
            return found;
        }
        // Another store has met this one's damage meanwhile: the keyspaces are gone.
        database.remove(found.keyspaceName(), this);
        return identify(context);
    }

    private void leaveDatabase() {
        if (identity != null) {
            database.remove(identity.keyspaceName(), this);
        }
        database.close();
    }

    private void checkName(StateStoreContext context) {
        int others = context.taskId().toString().length() + IDENTITY_BYTES + longestEnd().length();
        int max = NAME_BYTES_MAX - others;
        int bytes = name.getBytes(StandardCharsets.UTF_8).length;
        if (bytes > max) {
            throw new StreamsException(
                    "expected at most " + max + " bytes in the name of a store of task "
                            + context.taskId() + " on Hedgerow, found " + bytes + ": " + name);
        }
    }

    @Override
    public synchronized void close() {
        if (!open) {
            return;
        }
        open = false;
        Set<AutoCloseable> left = new HashSet<>(iterators);
        if (!left.isEmpty()) {
            LOG.warn("Closing {} open iterators for store {}", left.size(), name);
            left.forEach(HedgerowStore::close);
        }
        metrics.remove();
        try {
            try {
                if (damage == null) {
                    attempt(() -> {
                        identity.close(position);
                        return null;
                    });
                }
            } finally {
                leaveDatabase();
            }
        } catch (HedgerowException e) {
            throw failed(e);
        }
    }

    /** Closes an iterator, whose close throws nothing that is checked. */
    static void close(AutoCloseable iterator) {
        try {
            iterator.close();
        } catch (RuntimeException e) {
            throw e;
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
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

    /** Has an iterator closed with the store. If that is not open, closes it now, and throws. */
    void add(AutoCloseable iterator) {
        iterators.add(iterator);
        // Behind the addition: whoever closes the store sees the iterator, or this sees it closed.
        if (!open) {
            close(iterator);
            throw closed(null);
        }
    }

    void remove(AutoCloseable iterator) {
        iterators.remove(iterator);
    }

    private InvalidStateStoreException closed(IllegalStateException cause) {
        return new InvalidStateStoreException("Store " + name + " is currently closed", cause);
    }

    /**
     * Makes a call of a processor or a query to the database, and turns its failures into those
     * that Streams knows.
     */
    <T> T call(Supplier<T> body) {
        try {
            return callOfTask(body);
        } catch (TaskCorruptedException e) {
            if (!StoreIdentity.isExactlyOnce(context.appConfigs())) {
                throw e;
            }
            // A transaction may have records of this task. For a corrupted task Streams commits
            // those of its thread's other tasks in the same transaction, and then the records of
            // this one would be processed twice. A lost task has it aborted.
            throw new TaskMigratedException(
                    "the state of task " + context.taskId() + " is given up: " + e.getMessage(), e);
        }
    }

    /** Makes a call of Streams itself, outside of any transaction. */
    private <T> T callOfTask(Supplier<T> body) {
        if (!open) {
            throw closed(null);
        }
        if (damage != null) {
            throw corrupted(damage);
        }
        try {
            return attempt(body);
        } catch (IllegalStateException e) {
            if (damage != null) {
                // Another store met the damage, and dropped the keyspaces.
                throw corrupted(damage);
            }
            throw closed(e);
        } catch (CorruptionException e) {
            throw isForeign(e) ? failed(e) : corrupted(e);
        } catch (HedgerowException e) {
            throw failed(e);
        }
    }

    /**
     * Makes a call, and once more when the damage of another store was in its way: then it has
     * written nothing of its last batch, and may write the others again.
     */
    private <T> T attempt(Supplier<T> body) {
        while (true) {
            try {
                return body.get();
            } catch (CorruptionException e) {
                if (!isForeign(e) || !database.giveUp(e)) {
                    throw e;
                }
            }
        }
    }

    /** Returns true for damage of another store, or of the offsets, that kept a write waiting. */
    private boolean isForeign(CorruptionException e) {
        return e.keyspace()
                .filter(it -> identity == null || !it.startsWith(identity.keyspaceName()))
                .isPresent();
    }

    private ProcessorStateException failed(HedgerowException e) {
        return new ProcessorStateException("Error in store " + name + ": " + e.getMessage(), e);
    }

    /**
     * Gives up the state, which Streams restores when it has opened the task again. A global store
     * has no task: Streams fills it at its next start.
     */
    private StreamsException corrupted(CorruptionException e) {
        if (damage == null) {
            LOG.error(
                    "Task {}: the files of store {} are damaged, it is restored",
                    context.taskId(),
                    name,
                    e);
        }
        damaged(e);
        identity.forget();
        ProcessorStateException cause =
                new ProcessorStateException("the files of store " + name + " are damaged", e);
        return isGlobal(context)
                ? cause
                : new TaskCorruptedException(Set.of(context.taskId()), cause);
    }

    /** Makes every later call fail. */
    void damaged(CorruptionException e) {
        damage = e;
    }

    /** Returns true for a store of all instances, which has the number of no task. */
    static boolean isGlobal(StateStoreContext context) {
        return context.taskId().subtopology() < 0;
    }

    /** Makes a call that writes the record of the context. */
    <T> T write(Supplier<T> body) {
        begun = true;
        T result;
        synchronized (position) {
            result = call(body);
            StoreQueryUtils.updatePosition(position, context);
        }
        if (++writes % SWEPT_WRITES == 0) {
            database.sweep();
        }
        return result;
    }

    static void add(Batch batch, Keyspace keyspace, byte[] key, byte[] value) {
        if (value == null) {
            batch.delete(keyspace, key);
        } else {
            batch.put(keyspace, key, value);
        }
    }

    /** Counts records that come too late for a store, under Streams' own name. */
    static final class Dropped {
        private final Sensor sensor;
        private final StateStoreContext context;

        Dropped(StateStoreContext context) {
            this.context = context;
            sensor =
                    TaskMetrics.droppedRecordsSensor(
                            Thread.currentThread().getName(),
                            context.taskId().toString(),
                            ProcessorContextUtils.metricsImpl(context));
        }

        void count() {
            sensor.record(
                    1.0,
                    ProcessorContextUtils.asInternalProcessorContext(context).currentSystemTimeMs());
        }
    }

    // ---- offsets ----

    @Override
    @SuppressWarnings("deprecation")
    public boolean managesOffsets() {
        return true;
    }

    /**
     * Notes how far the state is. What is handed over before the store has begun counts unless it
     * may be that of other state; then all is restored. RocksDB has it count always.
     */
    @Override
    public synchronized void commit(Map<TopicPartition, Long> offsets) {
        if (open && (begun || identity.takesOffsets())) {
            synchronized (position) {
                callOfTask(() -> {
                    identity.commit(offsets, position);
                    return null;
                });
            }
            database.sweep();
        }
    }

    private void savePosition() {
        synchronized (position) {
            callOfTask(() -> {
                identity.savePosition(position);
                return null;
            });
        }
    }

    @Override
    public Long committedOffset(TopicPartition partition) {
        begun = true;
        return callOfTask(() -> identity.committedOffset(partition));
    }

    @Override
    public Position getPosition() {
        return position;
    }

    // ---- restore ----

    /**
     * Restores records. Streams takes a failure here for the end of the client, and that of a
     * commit for one of the task. So a damaged store takes no more records, and the next commit
     * says why.
     */
    private void restoreAll(Collection<ConsumerRecord<byte[], byte[]>> records) {
        begun = true;
        if (damage != null && !isGlobal(context)) {
            return;
        }
        synchronized (position) {
            try {
                callOfTask(() -> {
                    restore(records);
                    return null;
                });
            } catch (TaskCorruptedException | TaskMigratedException e) {
                LOG.warn("Store {} of {} is restored from its beginning", name, context.taskId(), e);
            }
        }
    }

    /** Writes records of the changelog in batches. */
    void restore(Collection<ConsumerRecord<byte[], byte[]>> records) {
        Batch batch = database.database().batch();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            restored(record);
            restore(batch, record.key(), record.value());
            if (batch.bytes() >= RESTORED_BYTES) {
                batch.commit();
            }
        }
        batch.commit();
    }

    /** Moves the position to a record of the changelog. */
    void restored(ConsumerRecord<byte[], byte[]> record) {
        ChangelogRecordDeserializationHelper.applyChecksAndUpdatePosition(
                record, consistencyEnabled, position);
    }

    // ---- queries ----

    /** A store with headers leaves queries to the stores above it. */
    @Override
    public <R> QueryResult<R> query(Query<R> query, PositionBound bound, QueryConfig config) {
        if (!(this instanceof HeadersBytesStore)) {
            return StoreQueryUtils.handleBasicQueries(query, bound, config, this, position, context);
        }
        return answer(config, () -> QueryResult.forUnknownQueryType(query, this));
    }

    /** Answers a query at the present position. */
    <R> QueryResult<R> answer(QueryConfig config, Supplier<QueryResult<R>> body) {
        long begin = System.nanoTime();
        synchronized (position) {
            QueryResult<R> result;
            try {
                result = body.get();
            } catch (RuntimeException e) {
                result = QueryResult.forFailure(FailureReason.STORE_EXCEPTION, e.toString());
            }
            if (config.isCollectExecutionInfo()) {
                long nanos = System.nanoTime() - begin;
                result.addExecutionInfo("Handled in " + getClass() + " in " + nanos + "ns");
            }
            result.setPosition(position.copy());
            return result;
        }
    }
}
