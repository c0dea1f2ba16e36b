package io.hedgerow.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.errors.InvalidStateStoreException;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.query.Position;
import org.apache.kafka.streams.query.PositionBound;
import org.apache.kafka.streams.query.Query;
import org.apache.kafka.streams.query.QueryConfig;
import org.apache.kafka.streams.query.QueryResult;
import org.apache.kafka.streams.query.RangeQuery;
import org.apache.kafka.streams.query.TimestampedRangeQuery;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Range queries of a store without timestamps that the DSL materializes. */
class RangeQueryTest {
    @TempDir Path state;

    /** A table with the entries a=1, b=2 and c=3. */
    private TopologyTestDriver table() {
        Materialized<String, String, KeyValueStore<Bytes, byte[]>> plain =
                Materialized.as(Hedgerow.keyValueStore("table"));
        StreamsBuilder builder = new StreamsBuilder();
        builder.table("words", plain.withCachingDisabled());
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "ranges");
        properties.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        properties.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        properties.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        TopologyTestDriver driver = new TopologyTestDriver(builder.build(), properties);
        TestInputTopic<String, String> words =
                driver.createInputTopic(
                        "words", Serdes.String().serializer(), Serdes.String().serializer());
        words.pipeInput("b", "2");
        words.pipeInput("a", "1");
        words.pipeInput("c", "3");
        return driver;
    }

    private static <R> R query(StateStore store, Query<R> query) {
        QueryResult<R> result =
                store.query(query, PositionBound.unbounded(), new QueryConfig(false));
        assertTrue(result.isSuccess(), () -> result.getFailureMessage());
        assertEquals(
                Position.emptyPosition().withComponent("words", 0, 2), result.getPosition());
        return result.getResult();
    }

    private static List<String> entries(KeyValueIterator<String, String> range) {
        List<String> entries = new ArrayList<>();
        try (range) {
            while (range.hasNext()) {
                String key = range.peekNextKey();
                entries.add(key + "=" + range.next().value);
                assertTrue(entries.get(entries.size() - 1).startsWith(key));
            }
        }
        return entries;
    }

    @Test
    void rangesAreThoseOfTheStore() throws IOException {
        try (TopologyTestDriver driver = table()) {
            StateStore store = driver.getTimestampedKeyValueStore("table");
            RangeQuery<String, String> all = RangeQuery.withNoBounds();
            assertEquals(List.of("a=1", "b=2", "c=3"), entries(query(store, all)));
            assertEquals(
                    List.of("c=3", "b=2", "a=1"), entries(query(store, all.withDescendingKeys())));
            assertEquals(
                    List.of("b=2", "c=3"), entries(query(store, RangeQuery.withLowerBound("b"))));
            assertEquals(
                    List.of("b=2", "a=1"),
                    entries(
                            query(
                                    store,
                                    RangeQuery.<String, String>withRange("a", "b")
                                            .withDescendingKeys())));
            assertEquals(List.of(), entries(query(store, RangeQuery.withRange("c", "a"))));
            try (KeyValueIterator<String, ValueAndTimestamp<String>> range =
                    query(store, TimestampedRangeQuery.<String, String>withUpperBound("a"))) {
                assertEquals(ValueAndTimestamp.make("1", -1), range.next().value);
                assertFalse(range.hasNext());
            }
        }
        String loaded = Files.readString(Path.of("/proc/self/maps"));
        assertFalse(loaded.contains("rocksdbjni"), "the library of RocksDB is loaded");
    }

    @Test
    void aRangeEndsWithItsStore() {
        KeyValueIterator<String, String> range;
        try (TopologyTestDriver driver = table()) {
            range = query(driver.getTimestampedKeyValueStore("table"), RangeQuery.withNoBounds());
            assertTrue(range.hasNext());
        }
        assertThrows(InvalidStateStoreException.class, range::hasNext);
        range.close();
    }

    /** Streams' own cast refuses it then, as it refuses every iterator but RocksDB's. */
    @Test
    void aRangeStaysAsItIsIfTheClassDoesNotFit() throws IOException {
        KeyValueIterator<Bytes, byte[]> range = Ranges.empty();
        String ours;
        try (InputStream file = RocksDbRanges.file()) {
            ours = new String(file.readAllBytes(), StandardCharsets.ISO_8859_1);
        }
        // Another constructor of the superclass, another superclass, and no file at all.
        for (String other :
                List.of(
                        ours.replace("HedgerowRangeIterator", "HedgerowRangeIterato1")
                                .replace("RocksIterator;Z)V", "RocksIterator;I)V"),
                        ours.replace("HedgerowRangeIterator", "HedgerowRangeIterato2")
                                .replace("RocksDbIterator", "RocksDbIterato2"))) {
            assertFalse(other.equals(ours));
            byte[] file = other.getBytes(StandardCharsets.ISO_8859_1);
            assertSame(range, RocksDbRanges.define(new ByteArrayInputStream(file)).apply(range));
        }
        assertSame(range, RocksDbRanges.define(null).apply(range));
    }
}
