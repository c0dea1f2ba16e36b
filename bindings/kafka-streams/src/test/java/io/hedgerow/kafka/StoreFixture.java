package io.hedgerow.kafka;

import io.hedgerow.Options;
import io.hedgerow.SharedHedgerow;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.TaskId;
import org.apache.kafka.streams.processor.internals.RecordBatchingStateRestoreCallback;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.StoreSupplier;
import org.apache.kafka.streams.state.WindowStore;
import org.apache.kafka.test.MockInternalProcessorContext;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.TempDir;

/** Stores of an application in a directory, which a test opens and closes as Streams does. */
abstract class StoreFixture {
    static final TopicPartition FIRST = new TopicPartition("changelog", 0);
    static final TopicPartition SECOND = new TopicPartition("changelog", 1);
    static final TaskId TASK = new TaskId(0, 1);
    /** The number of the task of global stores. */
    static final TaskId GLOBAL = new TaskId(-1, -1);
    static final StoreSupplier<WindowStore<Bytes, byte[]>> WINDOWS =
            Hedgerow.windowStore("windows", Duration.ofHours(1), Duration.ofMinutes(1), false);

    @TempDir Path state;
    final Map<String, Object> configs = new HashMap<>();
    /** That of the store that was opened last. */
    MockInternalProcessorContext<?, ?> context;

    @BeforeEach
    void configure() {
        configs.put(StreamsConfig.APPLICATION_ID_CONFIG, "shop");
        configs.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nowhere:1");
        configs.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        configs.put(ProcessDatabase.MEMORY, "16777216");
    }

    Path database() {
        return state.resolve(".hedgerow-shop");
    }

    KeyValueStore<Bytes, byte[]> open(String name) throws IOException {
        return open(Hedgerow.keyValueStore(name));
    }

    <S extends StateStore> S open(StoreSupplier<S> supplier) throws IOException {
        return open(supplier.get(), TASK);
    }

    <S extends StateStore> S open(S store, TaskId task) throws IOException {
        Path directory = Files.createDirectories(state.resolve("shop").resolve(task.toString()));
        Properties properties = new Properties();
        properties.putAll(configs);
        context = new MockInternalProcessorContext<>(properties, task, directory.toFile());
        store.init(context, store);
        return store;
    }

    KeyValueStore<Bytes, byte[]> openGlobal(String name) throws IOException {
        return open(Hedgerow.keyValueStore(name).get(), GLOBAL);
    }

    static Bytes key(String text) {
        return Bytes.wrap(text.getBytes());
    }

    void flush() {
        try (SharedHedgerow db = SharedHedgerow.open(database(), new Options())) {
            db.database().flush().await();
        }
    }

    void restore(StateStore store, List<ConsumerRecord<byte[], byte[]>> records) {
        ((RecordBatchingStateRestoreCallback) context.stateRestoreCallback(store.name()))
                .restoreBatch(records);
    }

    static ConsumerRecord<byte[], byte[]> record(byte[] key, byte[] value, long time) {
        return new ConsumerRecord<>(
                "changelog",
                0,
                time,
                time,
                TimestampType.CREATE_TIME,
                key.length,
                value.length,
                key,
                value,
                new RecordHeaders(),
                Optional.empty());
    }
}
