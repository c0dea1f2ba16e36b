package io.hedgerow.kafka;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.processor.internals.MockStreamsMetrics;
import org.apache.kafka.streams.query.MultiVersionedKeyQuery;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.VersionedRecord;
import org.apache.kafka.streams.state.VersionedRecordIterator;
import org.apache.kafka.streams.state.internals.ThreadCache;
import org.apache.kafka.test.InternalMockProcessorContext;
import org.apache.kafka.test.MockRecordCollector;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Versions of keys. Streams' own suite makes its store itself, so this is ours. */
class VersionedStoreTest {
    private static final long HISTORY = 300;
    private static final long INTERVAL = 70;
    private static final long UNDEFINED = VersionedKeyValueStore.PUT_RETURN_CODE_VALID_TO_UNDEFINED;
    private static final long NOT_PUT = VersionedKeyValueStore.PUT_RETURN_CODE_NOT_PUT;

    @TempDir Path state;
    private InternalMockProcessorContext<?, ?> context;
    private HedgerowVersionedStore store;

    @BeforeEach
    void open() {
        context =
                new InternalMockProcessorContext<>(
                        state.toFile(),
                        Serdes.ByteArray(),
                        Serdes.ByteArray(),
                        new MockRecordCollector(),
                        new ThreadCache(
                                new LogContext(), 0, new MockStreamsMetrics(new Metrics())));
        context.setTime(1);
        store = new HedgerowVersionedStore("versions", HISTORY, INTERVAL);
        store.init(context, store);
    }

    @AfterEach
    void close() {
        store.close();
    }

    private static Bytes key(String text) {
        return Bytes.wrap(text.getBytes());
    }

    private static byte[] value(String text) {
        return text == null ? null : text.getBytes();
    }

    private String at(String key, long time) {
        VersionedRecord<byte[]> record = store.get(key(key), time);
        return record == null ? null : new String(record.value());
    }

    @Test
    void aPutReturnsTheEndOfItsValidity() {
        assertEquals(UNDEFINED, store.put(key("a"), value("late"), 100));
        assertEquals(100, store.put(key("a"), value("early"), 50));
        assertEquals(100, store.put(key("a"), value("between"), 70));
        assertEquals(70, store.put(key("a"), value("early again"), 50));
        assertEquals(UNDEFINED, store.put(key("a"), value("late again"), 100));
        assertNull(store.get(key("a"), 49));
        assertEquals("early again", at("a", 50));
        assertEquals("early again", at("a", 69));
        assertEquals("between", at("a", 99));
        assertEquals("late again", at("a", 100));
        assertEquals("late again", at("a", 1_000_000));
        assertEquals(70L, store.get(key("a"), 60).validTo().get());
        assertEquals(100, store.get(key("a")).timestamp());
        assertNull(store.get(key("b")));
    }

    @Test
    void deletionsHideOlderVersionsFromTheirTimeOn() {
        store.put(key("a"), value("1"), 10);
        store.put(key("a"), value("2"), 30);
        assertEquals("2", new String(store.delete(key("a"), 30).value()));
        assertNull(store.get(key("a")));
        assertNull(at("a", 30));
        assertEquals("1", at("a", 29));
        assertEquals("1", new String(store.delete(key("a"), 20).value()));
        assertNull(at("a", 25));
        assertEquals("1", at("a", 19));
        // A deletion of a key that was never there is remembered, too.
        assertNull(store.delete(key("b"), 40));
        assertEquals(40, store.put(key("b"), value("before"), 20));
        assertEquals("before", at("b", 39));
        assertNull(at("b", 40));
        assertNull(store.get(key("b")));
    }

    @Test
    void whatIsOlderThanTheHistoryIsNeitherWrittenNorRead() {
        store.put(key("a"), value("old"), 10);
        store.put(key("a"), value("new"), 20);
        store.put(key("b"), value("now"), 1000);
        assertEquals(NOT_PUT, store.put(key("b"), value("too late"), 1000 - HISTORY - 1));
        assertNull(store.delete(key("b"), 1000 - HISTORY - 1));
        assertNull(at("a", 15), "older than the history");
        assertEquals("new", at("a", 25), "the latest version never expires");
        assertEquals("now", at("b", 1000));
        assertEquals(
                3.0,
                context.metrics().metrics().entrySet().stream()
                                .filter(it -> it.getKey().name().equals("dropped-records-total"))
                                .mapToDouble(it -> (double) it.getValue().metricValue())
                                .sum()
                        + 1.0);
    }

    @Test
    void versionsOfARangeAreThoseValidInIt() {
        store.put(key("a"), value("1"), 10);
        store.put(key("a"), value("2"), 100);
        store.put(key("a"), null, 150);
        store.put(key("a"), value("3"), 200);
        assertEquals(List.of("1", "2", "3"), between(0, 1000, true));
        assertEquals(List.of("3", "2", "1"), between(0, 1000, false));
        assertEquals(List.of("2"), between(100, 199, true));
        assertEquals(List.of("1"), between(50, 60, true));
        assertEquals(List.of(), between(150, 199, true));
    }

    private List<String> between(long from, long to, boolean ascending) {
        MultiVersionedKeyQuery<Bytes, byte[]> query =
                MultiVersionedKeyQuery.<Bytes, byte[]>withKey(key("a"))
                        .fromTime(Instant.ofEpochMilli(from))
                        .toTime(Instant.ofEpochMilli(to));
        query = ascending ? query.withAscendingTimestamps() : query.withDescendingTimestamps();
        List<String> found = new ArrayList<>();
        try (VersionedRecordIterator<byte[]> records =
                store.query(query, PositionBound.unbounded(), new QueryConfig(true)).getResult()) {
            records.forEachRemaining(it -> found.add(new String(it.value())));
        }
        return found;
    }

    /** Random puts, compared with a sorted map; then the same from a changelog. */
    @Test
    void theStoreAgreesWithAModel() throws IOException {
        Random random = new Random(31);
        Map<String, TreeMap<Long, String>> model = new HashMap<>();
        List<ConsumerRecord<byte[], byte[]>> changelog = new ArrayList<>();
        long streamTime = -1;
        for (int i = 0; i < 4000; i++) {
            String key = "k" + random.nextInt(5);
            long time = Math.max(0, i / 2 - random.nextInt(400));
            String value = random.nextInt(4) == 0 ? null : "v" + i;
            long validTo = store.put(key(key), value(value), time);
            if (time < streamTime - HISTORY) {
                assertEquals(NOT_PUT, validTo);
                continue;
            }
            streamTime = Math.max(streamTime, time);
            TreeMap<Long, String> versions = model.computeIfAbsent(key, it -> new TreeMap<>());
            Long next = versions.higherKey(time);
            assertEquals(next == null ? UNDEFINED : next, validTo, key + " at " + time);
            versions.put(time, value);
            changelog.add(record(changelog.size(), time, key, value));
            if (i % 50 == 0) {
                compare(model, streamTime);
            }
        }
        compare(model, streamTime);
        store.close();
        store = new HedgerowVersionedStore("versions", HISTORY, INTERVAL);
        store.init(context, store);
        compare(model, streamTime);
        store.close();
        Files.delete(state.resolve("hedgerow/versions"));
        store = new HedgerowVersionedStore("versions", HISTORY, INTERVAL);
        store.init(context, store);
        assertNull(store.get(key("k0")));
        store.restore(changelog);
        compare(model, streamTime);
    }

    private void compare(Map<String, TreeMap<Long, String>> model, long streamTime) {
        model.forEach((key, versions) -> {
            for (long time = Math.max(0, streamTime - HISTORY); time <= streamTime; time += 3) {
                Map.Entry<Long, String> expected = versions.floorEntry(time);
                assertEquals(expected == null ? null : expected.getValue(), at(key, time), key);
            }
            VersionedRecord<byte[]> latest = store.get(key(key));
            assertArrayEquals(
                    value(versions.lastEntry().getValue()), latest == null ? null : latest.value());
        });
    }

    private static ConsumerRecord<byte[], byte[]> record(
            long offset, long time, String key, String value) {
        return new ConsumerRecord<>(
                "changelog",
                0,
                offset,
                time,
                org.apache.kafka.common.record.TimestampType.CREATE_TIME,
                0,
                0,
                key.getBytes(),
                value(value),
                new org.apache.kafka.common.header.internals.RecordHeaders(),
                java.util.Optional.empty());
    }

    @Test
    void aClosedStoreAnswersNothing() {
        store.put(key("a"), value("1"), 10);
        store.close();
        assertThrows(InvalidStateStoreException.class, () -> store.get(key("a")));
        assertThrows(InvalidStateStoreException.class, () -> store.get(key("a"), 10));
        assertThrows(InvalidStateStoreException.class, () -> store.put(key("a"), value("2"), 20));
    }
}
