package io.hedgerow.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.hedgerow.Options;
import io.hedgerow.SharedHedgerow;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.Headers;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.EmitStrategy;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.TimeWindows;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.state.BuiltInDslStoreSuppliers;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.test.TestRecord;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Every kind of store of the DSL, switched by one line. */
class DslStoresTest {
    private static final Duration SIZE = Duration.ofSeconds(10);
    private static final Duration GRACE = Duration.ofSeconds(5);

    @TempDir Path state;

    private static void windows(KGroupedStream<String, String> words) {
        TimeWindows tumbling = TimeWindows.ofSizeAndGrace(SIZE, GRACE);
        SlidingWindows sliding = SlidingWindows.ofTimeDifferenceAndGrace(SIZE, GRACE);
        SessionWindows gaps = SessionWindows.ofInactivityGapAndGrace(Duration.ofSeconds(3), GRACE);
        out(words.windowedBy(tumbling).count().toStream(), "tumbling");
        out(words.windowedBy(sliding).count().toStream(), "sliding");
        out(words.windowedBy(gaps).count().toStream(), "sessions");
        EmitStrategy onClose = EmitStrategy.onWindowClose();
        out(words.windowedBy(tumbling).emitStrategy(onClose).count().toStream(), "tumbling-closed");
        out(words.windowedBy(sliding).emitStrategy(onClose).count().toStream(), "sliding-closed");
        out(words.windowedBy(gaps).emitStrategy(onClose).count().toStream(), "sessions-closed");
    }

    private static void out(KStream<Windowed<String>, Long> counts, String topic) {
        counts.map((key, count) ->
                        org.apache.kafka.streams.KeyValue.pair(
                                key.key() + key.window().start() + "-" + key.window().end(), "" + count))
                .to(topic);
    }

    private static final List<String> TOPICS =
            List.of(
                    "tumbling", "sliding", "sessions", "tumbling-closed", "sliding-closed",
                    "sessions-closed", "joined", "totals", "versioned");

    private static StreamsBuilder topology() {
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> left = builder.stream("left");
        KStream<String, String> right = builder.stream("right");
        windows(left.groupByKey(Grouped.with(Serdes.String(), Serdes.String())));
        left.outerJoin(
                        right, (a, b) -> a + "/" + b, JoinWindows.ofTimeDifferenceAndGrace(SIZE, GRACE))
                .to("joined");
        left.groupByKey().count().toStream().mapValues(it -> "" + it).to("totals");
        left.join(
                        builder.table(
                                "table",
                                Materialized.<String, String>as(
                                        Hedgerow.versionedKeyValueStore("history", SIZE))),
                        (a, b) -> a + "@" + b)
                .to("versioned");
        return builder;
    }

    /** The records of all topics, in their order, by key: the order of different keys is free. */
    private Map<String, List<String>> run(Class<?> suppliers, String id, long cache, String format) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, id);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        properties.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, suppliers);
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, cache);
        properties.put(StreamsConfig.DSL_STORE_FORMAT_CONFIG, format);
        properties.put(ProcessDatabase.MEMORY, 32 << 20);
        Map<String, List<String>> results = new TreeMap<>();
        try (TopologyTestDriver driver =
                new TopologyTestDriver(topology().build(properties), properties)) {
            Random random = new Random(7);
            Map<String, TestInputTopic<String, String>> inputs = new TreeMap<>();
            for (String topic : List.of("left", "right", "table")) {
                inputs.put(
                        topic,
                        driver.createInputTopic(
                                topic, Serdes.String().serializer(), Serdes.String().serializer()));
            }
            for (int i = 0; i < 1500; i++) {
                String topic = List.of("left", "right", "table").get(random.nextInt(3));
                long time = Math.max(0, i * 120L - random.nextInt(20_000));
                Headers headers = new RecordHeaders().add("from", (topic + i).getBytes());
                inputs.get(topic)
                        .pipeInput(
                                new TestRecord<>(
                                        "key" + random.nextInt(7), "v" + i, headers, time));
            }
            for (String topic : TOPICS) {
                for (TestRecord<String, String> it :
                        driver.createOutputTopic(
                                        topic,
                                        Serdes.String().deserializer(),
                                        Serdes.String().deserializer())
                                .readRecordsToList()) {
                    results.computeIfAbsent(topic + " " + it.key(), key -> new ArrayList<>())
                            .add(it.value() + " at " + it.timestamp() + headers(it));
                }
            }
        }
        return results;
    }

    private static String headers(TestRecord<String, String> record) {
        StringBuilder headers = new StringBuilder();
        for (Header it : record.headers()) {
            headers.append(" ").append(it.key()).append("=").append(new String(it.value()));
        }
        return headers.toString();
    }

    /** The same topology on RocksDB, which another process runs: its library must not be in ours. */
    public static final class Other {
        private Other() {}

        public static void main(String[] arguments) throws IOException {
            DslStoresTest test = new DslStoresTest();
            test.state = Path.of(arguments[0]);
            long cache = Long.parseLong(arguments[1]);
            Class<?> suppliers = BuiltInDslStoreSuppliers.RocksDBDslStoreSuppliers.class;
            Files.write(
                    Path.of(arguments[2]), lines(test.run(suppliers, "other", cache, arguments[3])));
        }
    }

    private static List<String> lines(Map<String, List<String>> results) {
        List<String> lines = new ArrayList<>();
        results.forEach((key, values) -> lines.add(key + " = " + values));
        return lines;
    }

    @ParameterizedTest
    @CsvSource({"0, DEFAULT", "10000000, DEFAULT", "0, HEADERS", "10000000, HEADERS"})
    void theResultsAreThoseOfRocksDb(long cache, String format) throws Exception {
        Path results = state.resolve("results");
        Path output = state.resolve("output");
        Process other =
                new ProcessBuilder(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "-cp",
                                System.getProperty("java.class.path"),
                                Other.class.getName(),
                                state.toString(),
                                "" + cache,
                                results.toString(),
                                format)
                        .redirectErrorStream(true)
                        .redirectOutput(output.toFile())
                        .start();
        Map<String, List<String>> found = run(HedgerowDslStoreSuppliers.class, "ours", cache, format);
        assertEquals(0, other.waitFor(), () -> output + " tells why");
        List<String> expected = Files.readAllLines(results);
        List<String> ours = lines(found);
        assertEquals(expected.size(), ours.size());
        for (int i = 0; i < expected.size(); i++) {
            assertEquals(expected.get(i), ours.get(i));
        }
        Set<String> topics = new HashSet<>();
        found.keySet().forEach(it -> topics.add(it.substring(0, it.indexOf(' '))));
        assertEquals(new HashSet<>(TOPICS), topics, "a topic without results proves nothing");
    }

    /** No store falls back on Streams' own engine, which is on the class path. */
    @Test
    void theLibraryOfRocksDbIsNotLoaded() throws IOException {
        run(HedgerowDslStoreSuppliers.class, "alone", 0, "HEADERS");
        String loaded = Files.readString(Path.of("/proc/self/maps"));
        assertTrue(loaded.contains("hedgerow"), "our library should be loaded");
        assertFalse(loaded.contains("rocksdbjni"), "the library of RocksDB is loaded");
    }

    @Test
    void segmentsAreDroppedAsTheyExpire() {
        run(HedgerowDslStoreSuppliers.class, "expire", 0, "DEFAULT");
        try (SharedHedgerow db =
                SharedHedgerow.open(database(state.resolve("expire")), new Options())) {
            List<String> tumbling = new ArrayList<>(db.database().keyspaceNames());
            // 180 seconds, of which 15 are kept, in segments of 60.
            tumbling.removeIf(it -> !it.matches(".*AGGREGATE.*000000000[0-9]+\\..*\\.[0-9]+"));
            assertFalse(tumbling.isEmpty());
            for (String name : tumbling) {
                int segment = Integer.parseInt(name.substring(name.lastIndexOf('.') + 1));
                assertTrue(segment >= 1, name);
            }
        }
    }

    private static Path database(Path application) {
        return application.resolveSibling(".hedgerow-" + application.getFileName());
    }

    /** A store's own lines go before those for all stores. */
    @Test
    void aStoreIsConfiguredByItsName() {
        StreamsBuilder builder = new StreamsBuilder();
        Materialized<String, Long, KeyValueStore<Bytes, byte[]>> counts = Materialized.as("counts");
        builder.<String, String>stream("words").groupByKey().count(counts);
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "named");
        properties.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        properties.put(
                StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, HedgerowDslStoreSuppliers.class);
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put("hedgerow.compression", "lz4");
        properties.put("hedgerow.compression.counts", "none");
        properties.put("hedgerow.design", "policy = leveling:7\nfilter = bloom:9");
        properties.put("hedgerow.design.counts", "filter = bloom:7");
        properties.put("hedgerow.layout.counts", "sorted hash:2");
        try (TopologyTestDriver driver =
                new TopologyTestDriver(builder.build(properties), properties)) {
            driver.createInputTopic(
                            "words", Serdes.String().serializer(), Serdes.String().serializer())
                    .pipeInput("a", "b");
            assertEquals(1L, driver.<String, Long>getKeyValueStore("counts").get("a"));
            try (SharedHedgerow db =
                    SharedHedgerow.open(database(state.resolve("named")), new Options())) {
                String name =
                        db.database().keyspaceNames().stream()
                                .filter(it -> it.contains(".counts."))
                                .findFirst()
                                .get();
                assertTrue(db.database().existingKeyspace(name).get().layout().contains("hash:2"));
                String design = db.database().existingKeyspace(name).get().design();
                assertTrue(design.contains("compression = none"), design);
                assertTrue(design.contains("filter = bloom:7"), design);
                assertTrue(design.contains("policy = leveling:7"), design);
            }
        }
    }

    @Test
    void metricsHaveTheNamesThatPeopleChart() {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("words").groupByKey().count(Materialized.as("counts"));
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "metrics");
        properties.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        properties.put(
                StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, HedgerowDslStoreSuppliers.class);
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        try (TopologyTestDriver driver =
                new TopologyTestDriver(builder.build(properties), properties)) {
            driver.createInputTopic(
                            "words", Serdes.String().serializer(), Serdes.String().serializer())
                    .pipeInput("a", "b");
            Map<String, Long> found = new TreeMap<>();
            driver.metrics().forEach((name, metric) -> {
                if ("counts".equals(name.tags().get("hedgerow-state-id"))
                        && metric.metricValue() instanceof java.math.BigInteger) {
                    assertEquals("stream-state-metrics", name.group());
                    found.put(name.name(), ((java.math.BigInteger) metric.metricValue()).longValue());
                }
            });
            assertEquals(
                    Set.of(
                            "block-cache-capacity",
                            "block-cache-usage",
                            "bytes-written-total",
                            "compaction-pending",
                            "cur-size-all-mem-tables",
                            "estimate-num-keys",
                            "estimate-pending-compaction-bytes",
                            "estimate-table-readers-mem",
                            "live-sst-files-size",
                            "memtable-bytes-flushed-total",
                            "size-all-mem-tables",
                            "total-sst-files-size",
                            "write-stall-duration-total"),
                    found.keySet());
            assertEquals(1, found.get("estimate-num-keys"));
            assertTrue(found.get("size-all-mem-tables") > 0);
            assertTrue(found.get("bytes-written-total") > 0);
            assertEquals(256L << 20, found.get("block-cache-capacity"));
        }
    }
}
