package io.hedgerow.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.hedgerow.Options;
import io.hedgerow.SharedHedgerow;
import java.io.IOException;
import java.math.BigInteger;
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
import java.util.concurrent.TimeUnit;
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
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.kstream.Suppressed.BufferConfig;
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
                    "sessions-closed", "joined", "totals", "versioned", "suppressed", "owned",
                    "with-global");
    private static final List<String> INPUTS =
            List.of("left", "right", "table", "things", "owners", "global");

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
        KGroupedStream<String, String> words =
                left.groupByKey(Grouped.with(Serdes.String(), Serdes.String()));
        KTable<Windowed<String>, Long> closed =
                words.windowedBy(TimeWindows.ofSizeAndGrace(SIZE, GRACE))
                        .count()
                        .suppress(Suppressed.untilWindowCloses(BufferConfig.unbounded()));
        out(closed.toStream(), "suppressed");
        KTable<String, String> owners = builder.table("owners");
        builder.<String, String>table("things")
                .join(owners, DslStoresTest::owner, (thing, owner) -> thing + " of " + owner)
                .toStream()
                .to("owned");
        left.join(
                        builder.<String, String>globalTable("global"),
                        (key, value) -> key,
                        (a, b) -> a + "#" + b)
                .to("with-global");
        return builder;
    }

    /** The key of a thing's owner, which its value tells. */
    private static String owner(String thing) {
        return "key" + Integer.parseInt(thing.substring(1)) % 7;
    }

    private Properties properties(Class<?> suppliers, String id) {
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, id);
        properties.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        properties.put(StreamsConfig.DSL_STORE_SUPPLIERS_CLASS_CONFIG, suppliers);
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        return properties;
    }

    /** The records of all topics, in their order, by key: the order of different keys is free. */
    private Map<String, List<String>> run(Class<?> suppliers, String id, long cache, String format) {
        Properties properties = properties(suppliers, id);
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, cache);
        properties.put(StreamsConfig.DSL_STORE_FORMAT_CONFIG, format);
        properties.put(ProcessDatabase.MEMORY, 32 << 20);
        Map<String, List<String>> results = new TreeMap<>();
        try (TopologyTestDriver driver =
                new TopologyTestDriver(topology().build(properties), properties)) {
            Random random = new Random(7);
            Map<String, TestInputTopic<String, String>> inputs = new TreeMap<>();
            for (String topic : INPUTS) {
                inputs.put(
                        topic,
                        driver.createInputTopic(
                                topic, Serdes.String().serializer(), Serdes.String().serializer()));
            }
            for (int i = 0; i < 1500; i++) {
                String topic = INPUTS.get(random.nextInt(INPUTS.size()));
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

    /**
     * The same topology on RocksDB, which another process runs: its library must not be in ours.
     */
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
        Process other =
                start(Other.class, state.toString(), "" + cache, results.toString(), format);
        Map<String, List<String>> found = run(HedgerowDslStoreSuppliers.class, "ours", cache, format);
        assertEquals(0, other.waitFor(), () -> state.resolve("output") + " tells why");
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

    private Process start(Class<?> main, String... arguments) throws IOException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), main.getName()));
        command.addAll(List.of(arguments));
        return new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(state.resolve("output").toFile())
                .start();
    }

    /** No store falls back on Streams' own engine, which is on the class path. */
    @Test
    void theLibraryOfRocksDbIsNotLoaded() throws IOException {
        run(HedgerowDslStoreSuppliers.class, "alone", 0, "HEADERS");
        String loaded = Files.readString(Path.of("/proc/self/maps"));
        assertTrue(loaded.contains("hedgerow"), "our library should be loaded");
        assertFalse(loaded.contains("rocksdbjni"), "the library of RocksDB is loaded");
    }

    /** Leaves with 0 if a join with a versioned table that has a grace period loads RocksDB. */
    public static final class GraceJoin {
        private GraceJoin() {}

        public static void main(String[] arguments) throws IOException {
            DslStoresTest test = new DslStoresTest();
            test.state = Path.of(arguments[0]);
            StreamsBuilder builder = new StreamsBuilder();
            builder.<String, String>stream("left")
                    .join(
                            builder.table(
                                    "table",
                                    Materialized.<String, String>as(
                                            Hedgerow.versionedKeyValueStore("history", SIZE))),
                            (a, b) -> a + "@" + b,
                            Joined.<String, String, String>as("late").withGracePeriod(GRACE))
                    .to("versioned");
            Properties properties = test.properties(HedgerowDslStoreSuppliers.class, "grace");
            try (TopologyTestDriver driver =
                    new TopologyTestDriver(builder.build(properties), properties)) {
                driver.createInputTopic(
                                "left", Serdes.String().serializer(), Serdes.String().serializer())
                        .pipeInput("key", "value");
            }
            String loaded = Files.readString(Path.of("/proc/self/maps"));
            System.exit(loaded.contains("rocksdbjni") ? 0 : 1);
        }
    }

    /**
     * The one exception, because Streams makes the buffer itself: the page for its users says so.
     */
    @Test
    void aJoinWithGraceLoadsRocksDb() throws Exception {
        assertEquals(0, start(GraceJoin.class, state.toString()).waitFor());
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
        Properties properties = properties(HedgerowDslStoreSuppliers.class, "named");
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

    /** The gauges that are no whole numbers. */
    private static final Set<String> OURS =
            Set.of(
                    "bytes-read-compaction-rate",
                    "bytes-written-compaction-rate",
                    "bytes-written-rate",
                    "memtable-bytes-flushed-rate",
                    "memtable-hit-ratio");

    @Test
    void metricsHaveTheNamesThatPeopleChart() {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("words").groupByKey().count(Materialized.as("counts"));
        Properties properties = properties(HedgerowDslStoreSuppliers.class, "metrics");
        properties.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0L);
        try (TopologyTestDriver driver =
                new TopologyTestDriver(builder.build(properties), properties)) {
            Map<String, Double> begin = gauges(driver);
            assertEquals(0, begin.get("bytes-written-rate"));
            TestInputTopic<String, String> words =
                    driver.createInputTopic(
                            "words", Serdes.String().serializer(), Serdes.String().serializer());
            words.pipeInput("a", "b");
            assertEquals(1, gauges(driver).get("estimate-num-keys"));
            words.pipeInput("a", "b");
            ProcessDatabase.clock = () -> System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
            Map<String, Double> found = gauges(driver);
            assertEquals(
                    Set.of(
                            "block-cache-capacity",
                            "block-cache-usage",
                            "bytes-read-compaction-rate",
                            "bytes-written-compaction-rate",
                            "bytes-written-rate",
                            "bytes-written-total",
                            "compaction-pending",
                            "cur-size-all-mem-tables",
                            "estimate-num-keys",
                            "estimate-pending-compaction-bytes",
                            "estimate-table-readers-mem",
                            "live-sst-files-size",
                            "memtable-bytes-flushed-rate",
                            "memtable-bytes-flushed-total",
                            "memtable-hit-ratio",
                            "size-all-mem-tables",
                            "total-sst-files-size",
                            "write-stall-duration-total"),
                    found.keySet());
            assertTrue(found.get("size-all-mem-tables") > 0);
            assertTrue(found.get("bytes-written-total") > 0);
            double grown = found.get("bytes-written-total") - begin.get("bytes-written-total");
            double rate = found.get("bytes-written-rate");
            assertTrue(rate > 0 && rate <= grown / 10, rate + " of " + grown);
            // The first of two records finds no count.
            assertTrue(found.get("memtable-hit-ratio") > 0);
            assertTrue(found.get("memtable-hit-ratio") < 1);
            assertEquals(256L << 20, found.get("block-cache-capacity"));
        } finally {
            ProcessDatabase.clock = System::nanoTime;
        }
    }

    private static Map<String, Double> gauges(TopologyTestDriver driver) {
        Map<String, Double> found = new TreeMap<>();
        driver.metrics().forEach((name, metric) -> {
            // The others are Streams' own, of the store above.
            if ("counts".equals(name.tags().get("hedgerow-state-id"))
                    && (metric.metricValue() instanceof BigInteger || OURS.contains(name.name()))) {
                assertEquals("stream-state-metrics", name.group());
                found.put(name.name(), ((Number) metric.metricValue()).doubleValue());
            }
        });
        return found;
    }
}
