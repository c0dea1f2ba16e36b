package io.hedgerow.kafka;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.KeyValueStore;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A topology of the DSL whose stores are ours. */
class TopologyTest {
    @TempDir Path state;

    @Test
    void aTopologyCounts() throws IOException {
        StreamsBuilder builder = new StreamsBuilder();
        Materialized<String, Long, KeyValueStore<Bytes, byte[]>> counts =
                Materialized.as(Hedgerow.timestampedKeyValueStore("counts"));
        builder.stream("words", Consumed.with(Serdes.String(), Serdes.String()))
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .count(counts.withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()));
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "words");
        properties.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), properties)) {
            TestInputTopic<String, String> words =
                    driver.createInputTopic(
                            "words", Serdes.String().serializer(), Serdes.String().serializer());
            for (String word : "b a b c b a".split(" ")) {
                words.pipeInput("line", word);
            }
            KeyValueStore<String, Long> store = driver.getKeyValueStore("counts");
            assertEquals(3L, store.get("b"));
            List<KeyValue<String, Long>> all = new ArrayList<>();
            try (KeyValueIterator<String, Long> entries = store.all()) {
                entries.forEachRemaining(all::add);
            }
            assertEquals(
                    List.of(KeyValue.pair("a", 2L), KeyValue.pair("b", 3L), KeyValue.pair("c", 1L)),
                    all);
        }
        // Streams' own engine is on the class path, but nobody has loaded its library.
        String loaded = Files.readString(Path.of("/proc/self/maps"));
        assertFalse(loaded.contains("rocksdbjni"), "the library of RocksDB is loaded");
    }
}
