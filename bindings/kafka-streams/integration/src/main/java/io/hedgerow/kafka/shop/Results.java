package io.hedgerow.kafka.shop;

import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.streams.StreamsConfig;

/** The sums and windows that an application has written, beside those that the orders make. */
final class Results {
    private static final Duration PROCESSED_AFTER_MAX = Duration.ofMinutes(15);
    private static final Duration SETTLED_AFTER_MAX = Duration.ofMinutes(3);

    private Results() {}

    /**
     * Ends the orders, waits until they are processed, and prints how the sums and windows are.
     * Returns true if all are exact, or under at-least-once never less.
     */
    static boolean areRight(Fleet fleet, Orders orders, String guarantee)
            throws IOException, ExecutionException, InterruptedException {
        orders.end();
        Progress.await(fleet.address, "shop", Instance.ORDERS, orders.sent(), PROCESSED_AFTER_MAX);
        boolean exact = guarantee.equals(StreamsConfig.EXACTLY_ONCE_V2);
        return settled(fleet, Instance.SUMS, orders.sums, exact)
                & settled(fleet, Instance.WINDOWS, orders.windows, exact);
    }

    /** Says how a test ended, and ends the process. */
    static void end(String test, boolean passed) {
        System.out.println(test + ": " + (passed ? "holds" : "DOES NOT HOLD"));
        System.exit(passed ? 0 : 1);
    }

    /** Reads results, until they are what they must be or no more come. */
    private static boolean settled(
            Fleet fleet, String topic, Map<String, Long> expected, boolean exact) {
        Map<String, Long> found = new HashMap<>();
        Map<String, Object> config =
                Map.of(
                        "bootstrap.servers", fleet.address,
                        "group.id", "check-" + topic,
                        "auto.offset.reset", "earliest",
                        "isolation.level", "read_committed",
                        "max.poll.records", 100_000);
        Instant deadline = Instant.now().plus(SETTLED_AFTER_MAX);
        try (KafkaConsumer<String, Long> consumer =
                new KafkaConsumer<>(config, new StringDeserializer(), new LongDeserializer())) {
            consumer.subscribe(List.of(topic));
            // Results that are too many come later: the end is when nothing has come for a while.
            for (int quiet = 0; quiet < 10 && Instant.now().isBefore(deadline); quiet++) {
                ConsumerRecords<String, Long> read = consumer.poll(Duration.ofSeconds(1));
                read.forEach(it -> found.put(it.key(), it.value()));
                quiet = read.isEmpty() && wrong(found, expected, false).isEmpty() ? quiet : -1;
            }
        }
        Map<String, String> wrong = wrong(found, expected, exact);
        long more =
                expected.entrySet().stream()
                        .filter(it -> found.getOrDefault(it.getKey(), 0L) > it.getValue())
                        .count();
        System.out.printf(
                "%s: %d expected, %d wrong, %d more than sent%n",
                topic, expected.size(), wrong.size(), more);
        wrong.entrySet().stream().limit(5).forEach(it -> System.out.println("  " + it));
        boolean allKnown = !exact || found.size() == expected.size();
        if (!allKnown) {
            System.out.println("  " + found.size() + " found, also of keys that nobody sent");
        }
        return wrong.isEmpty() && allKnown;
    }

    private static Map<String, String> wrong(
            Map<String, Long> found, Map<String, Long> expected, boolean exact) {
        Map<String, String> wrong = new HashMap<>();
        expected.forEach((key, value) -> {
            long result = found.getOrDefault(key, 0L);
            if (result < value || exact && result != value) {
                wrong.put(key, "expected " + value + ", found " + result);
            }
        });
        return wrong;
    }
}
