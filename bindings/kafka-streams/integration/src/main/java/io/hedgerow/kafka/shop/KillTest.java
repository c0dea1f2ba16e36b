package io.hedgerow.kafka.shop;

import java.io.IOException;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.streams.StreamsConfig;

/**
 * Three instances with standbys, of which a random one is killed again and again, while orders come.
 * At the end every sum and every window must be exact under exactly-once, and never less under
 * at-least-once.
 */
public final class KillTest {
    private static final int INSTANCES = 3;
    private static final int CUSTOMERS = 5000;
    private static final int PER_SECOND = 1000;
    private static final Duration KILLED_AFTER_MAX = Duration.ofSeconds(30);
    private static final Duration PROCESSED_AFTER_MAX = Duration.ofMinutes(15);
    private static final Duration SETTLED_AFTER_MAX = Duration.ofMinutes(3);

    private KillTest() {}

    /** Arguments: directory, guarantee, kills, suppliers. */
    public static void main(String[] arguments) throws Exception {
        String guarantee = arguments[1];
        int kills = Integer.parseInt(arguments[2]);
        boolean passed;
        try (Fleet fleet = new Fleet(Path.of(arguments[0]), INSTANCES, guarantee, arguments[3])) {
            for (int i = 0; i < INSTANCES; i++) {
                fleet.start(i);
            }
            Orders orders = new Orders(fleet.address, CUSTOMERS, PER_SECOND, Long.MAX_VALUE);
            orders.start();
            Random random = new Random(31);
            for (int kill = 1; kill <= kills; kill++) {
                String waited = waitUntilRunning(fleet);
                int victim = random.nextInt(INSTANCES);
                System.out.printf("kill %d of %d: %s, instance %d%n", kill, kills, waited, victim);
                fleet.kill(victim);
                fleet.start(victim);
            }
            System.out.println("end: " + waitUntilRunning(fleet));
            orders.end();
            Restart.waitUntilProcessed(fleet.address, orders.sent(), PROCESSED_AFTER_MAX);
            boolean exact = guarantee.equals(StreamsConfig.EXACTLY_ONCE_V2);
            passed = settled(fleet, io.hedgerow.kafka.shop.Instance.SUMS, orders.sums, exact)
                    & settled(fleet, io.hedgerow.kafka.shop.Instance.WINDOWS, orders.windows, exact);
        }
        System.out.println(guarantee + ", " + kills + " kills: " + (passed ? "holds" : "DOES NOT HOLD"));
        System.exit(passed ? 0 : 1);
    }

    private static String waitUntilRunning(Fleet fleet) throws IOException, InterruptedException {
        Instant began = Instant.now();
        while (Duration.between(began, Instant.now()).compareTo(KILLED_AFTER_MAX) < 0) {
            boolean all = true;
            StringBuilder states = new StringBuilder();
            for (int i = 0; i < INSTANCES; i++) {
                all &= fleet.isRunning(i);
                states.append(' ').append(fleet.state(i));
            }
            if (all) {
                long millis = Duration.between(began, Instant.now()).toMillis();
                return "all running after " + millis + " ms," + states;
            }
            Thread.sleep(100);
        }
        return "not all running after " + KILLED_AFTER_MAX.toSeconds() + " s";
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
            // What comes too much comes later: the end is when nothing has come for a while.
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
        return wrong.isEmpty();
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
