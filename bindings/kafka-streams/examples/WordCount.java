import io.hedgerow.kafka.Hedgerow;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
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

/** Counts the words of a file by a topology, whose table is a store on Hedgerow. */
public final class WordCount {
    private WordCount() {}

    public static void main(String[] arguments) throws IOException {
        Path state = Files.createTempDirectory("word-count");
        Properties properties = new Properties();
        properties.put(StreamsConfig.APPLICATION_ID_CONFIG, "words");
        properties.put(StreamsConfig.STATE_DIR_CONFIG, state.toString());
        properties.put("hedgerow.memory.bytes", "33554432");

        StreamsBuilder builder = new StreamsBuilder();
        Materialized<String, Long, KeyValueStore<Bytes, byte[]>> counts =
                Materialized.as(Hedgerow.timestampedKeyValueStore("counts"));
        builder.stream("lines", Consumed.with(Serdes.String(), Serdes.String()))
                .flatMapValues(line -> Arrays.asList(line.toLowerCase().split("\\W+")))
                .filter((key, word) -> word.length() > 3)
                .groupBy((key, word) -> word, Grouped.with(Serdes.String(), Serdes.String()))
                .count(counts.withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()));

        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), properties)) {
            TestInputTopic<String, String> lines =
                    driver.createInputTopic(
                            "lines", Serdes.String().serializer(), Serdes.String().serializer());
            for (String line : Files.readAllLines(Path.of(arguments[0]))) {
                lines.pipeInput("line", line);
            }
            List<KeyValue<String, Long>> all = new ArrayList<>();
            KeyValueStore<String, Long> store = driver.getKeyValueStore("counts");
            try (KeyValueIterator<String, Long> entries = store.all()) {
                entries.forEachRemaining(all::add);
            }
            System.out.printf("%d words in %s, most often:%n", all.size(), arguments[0]);
            all.sort((a, b) -> Long.compare(b.value, a.value));
            all.stream().limit(5).forEach(it -> System.out.printf("  %6d %s%n", it.value, it.key));
        }
    }
}
