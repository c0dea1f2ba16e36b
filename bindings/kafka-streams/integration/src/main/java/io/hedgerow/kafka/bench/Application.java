package io.hedgerow.kafka.bench;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.hedgerow.Options;
import io.hedgerow.SharedHedgerow;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StoreQueryParameters;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyConfig;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.QueryableStoreTypes;

/**
 * The application, in a process of its own. It aggregates orders by their keys, in one store or
 * several: the value of a key is the count of its orders, and the last one. It answers commands,
 * each a line of its input, by a line of JSON:
 *
 * <pre>
 * status         state, counts, times
 * stretch LAST   measures from the next record to this one
 * pause, resume  stops processing, and goes on
 * total          the keys of all stores, and the sum of their counts
 * engine         MiB that our stores have written, by the engine's counts
 * close          closes the stores, and leaves the process
 * </pre>
 */
public final class Application {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Settings settings;
    private final KafkaStreams streams;
    private final Counting counting = new Counting();
    private final AtomicLong restored = new AtomicLong();
    /** The milliseconds of the clock when a state was entered first. */
    private final Map<String, Long> entered = new ConcurrentHashMap<>();

    private Application(Settings settings) throws ReflectiveOperationException {
        this.settings = settings;
        Properties config = config();
        streams = new KafkaStreams(topology(config), config);
        streams.setStateListener((now, before) -> enter(now.name()));
        streams.setGlobalStateRestoreListener(restoreListener());
        counting.stretch(settings.number("keys"));
    }

    /** Arguments: settings. Ends with its input, without closing anything. */
    public static void main(String[] arguments) throws Exception {
        PrintStream replies = System.out;
        System.setOut(System.err);
        Application application = new Application(Settings.parse(arguments));
        application.enter("STARTED");
        application.streams.start();
        BufferedReader commands =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            replies.println(JSON.writeValueAsString(application.answer(line.split(" "))));
        }
        Runtime.getRuntime().halt(0);
    }

    private void enter(String state) {
        entered.putIfAbsent(state, System.currentTimeMillis());
    }

    private Map<String, Object> answer(String[] command) throws IOException {
        switch (command[0]) {
            case "stretch":
                counting.stretch(Long.parseLong(command[1]));
                return status();
            case "pause":
                streams.pause();
                return status();
            case "resume":
                streams.resume();
                return status();
            case "total":
                return total();
            case "engine":
                return engine();
            case "close":
                streams.close(Duration.ofMinutes(5));
                return status();
            case "status":
                return status();
            default:
                throw new IOException("expected a command, found " + command[0]);
        }
    }

    private Map<String, Object> status() {
        Map<String, Object> status = new TreeMap<>();
        status.put("state", streams.state().name());
        status.put("processed", counting.processed());
        status.put("nanos", counting.nanos());
        status.put("restored", restored.get());
        status.put("entered", entered);
        Map<String, Object> commits = counting.commits.row("task_commit_ms");
        commits.putAll(TimedCommits.MICROS.row("store_commit_us"));
        status.put("commits", commits);
        return status;
    }

    private Map<String, Object> engine() {
        Path database = Path.of(settings.text("dir"), ".hedgerow-" + settings.text("id"));
        if (!Files.exists(database)) {
            return Map.of();
        }
        try (SharedHedgerow shared = SharedHedgerow.open(database, new Options())) {
            Map<String, Object> stats = shared.database().stats();
            return Stream.of("log", "flush", "merge_write")
                    .collect(Collectors.toMap(
                            it -> "engine_" + it + "_mib",
                            it -> ((Number) stats.get(it + "_bytes")).longValue() >> 20));
        }
    }

    private Map<String, Object> total() {
        long keys = 0;
        long sum = 0;
        for (int i = 0; i < settings.number("stores"); i++) {
            var store = streams.store(
                    StoreQueryParameters.fromNameAndType(
                            store(i), QueryableStoreTypes.<byte[], byte[]>keyValueStore()));
            try (KeyValueIterator<byte[], byte[]> all = store.all()) {
                for (; all.hasNext(); keys++) {
                    sum += ByteBuffer.wrap(all.next().value).getLong();
                }
            }
        }
        return Map.of("keys", keys, "sum", sum);
    }

    static String store(int index) {
        return "counts-" + index;
    }

    private Properties config() throws ReflectiveOperationException {
        Engine engine = Engine.of(settings.text("store"));
        Properties config = new Properties();
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, settings.text("id"));
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, settings.text("broker"));
        config.put(StreamsConfig.STATE_DIR_CONFIG, settings.text("dir"));
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, settings.number("commit_ms"));
        config.put(
                StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, settings.number("record_cache_mib") << 20);
        config.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, (int) settings.number("stream_threads"));
        config.put("auto.offset.reset", "earliest");
        // A busy machine may take its time.
        config.put(StreamsConfig.producerPrefix("request.timeout.ms"), 300_000);
        config.put(StreamsConfig.producerPrefix("delivery.timeout.ms"), 600_000);
        if (settings.isOn("static_member")) {
            // A member that comes back under its name gets its partitions at once. Otherwise a
            // restart waits for the session of the killed one to end.
            config.put(StreamsConfig.mainConsumerPrefix("group.instance.id"), "bench");
        }
        engine.configure(config, settings.number("budget_mib") << 20, settings.text("design"));
        if (settings.isOn("timed_commits")) {
            TimedCommits.suppliers = engine.suppliers.getConstructor().newInstance();
            config.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, TimedCommits.class);
        }
        return config;
    }

    private Topology topology(Properties config) {
        StreamsBuilder builder = new StreamsBuilder(
                new TopologyConfig(new StreamsConfig(config)));
        var bytes = Serdes.ByteArray();
        KGroupedStream<byte[], byte[]> orders =
                builder.stream(
                                settings.text("id"),
                                Consumed.with(bytes, bytes))
                        .processValues(counting::processor)
                        .groupByKey(Grouped.with(bytes, bytes));
        for (int i = 0; i < settings.number("stores"); i++) {
            var store = Materialized.<byte[], byte[], KeyValueStore<Bytes, byte[]>>as(store(i))
                    .withKeySerde(bytes)
                    .withValueSerde(bytes);
            orders.aggregate(
                    () -> new byte[Long.BYTES],
                    (key, order, value) -> next(order, value),
                    settings.isOn("changelog") ? store : store.withLoggingDisabled());
        }
        return builder.build(config);
    }

    private static byte[] next(byte[] order, byte[] value) {
        return ByteBuffer.allocate(Long.BYTES + order.length)
                .putLong(ByteBuffer.wrap(value).getLong() + 1)
                .put(order)
                .array();
    }

    private StateRestoreListener restoreListener() {
        return new StateRestoreListener() {
            @Override
            public void onRestoreStart(TopicPartition partition, String store, long from, long to) {
                enter("RESTORING");
            }

            @Override
            public void onBatchRestored(
                    TopicPartition partition, String store, long offset, long records) {
                restored.addAndGet(records);
            }

            @Override
            public void onRestoreEnd(TopicPartition partition, String store, long records) {}
        };
    }
}
