package io.hedgerow.kafka.shop;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.StreamsConfig;

/**
 * One instance that is killed once it has processed all orders, under at-least-once: what it restores
 * afterwards, and how long that takes.
 */
public final class Restart {
    private static final int PER_SECOND = 50_000;
    private static final Duration PROCESSED_AFTER_MAX = Duration.ofMinutes(15);

    private Restart() {}

    /** Arguments: directory, suppliers, orders, customers, kills. Prints a row for each kill. */
    public static void main(String[] arguments) throws Exception {
        Path dir = Path.of(arguments[0]);
        long count = Long.parseLong(arguments[2]);
        int customers = Integer.parseInt(arguments[3]);
        try (Fleet fleet = new Fleet(dir, 1, StreamsConfig.AT_LEAST_ONCE, arguments[1])) {
            Process instance = fleet.start(0);
            Orders orders = new Orders(fleet.address, customers, PER_SECOND, count);
            orders.start();
            orders.join();
            waitUntilProcessed(fleet.address, count, PROCESSED_AFTER_MAX);
            System.out.println("orders customers restored running_ms rss_mib threads state_mib");
            for (int kill = 0; kill < Integer.parseInt(arguments[4]); kill++) {
                long state = bytes(dir.resolve("instance-0")) >> 20;
                String process = process(instance);
                fleet.kill(0);
                long began = System.nanoTime();
                instance = fleet.start(0);
                while (!fleet.isRunning(0)) {
                    Thread.sleep(20);
                }
                long millis = (System.nanoTime() - began) / 1_000_000;
                String restored = fleet.state(0).split(" ")[1];
                System.out.printf(
                        "%d %d %s %d %s %d%n", count, customers, restored, millis, process, state);
            }
        }
        System.exit(0);
    }

    /** Waits until the application has committed that it has processed a number of orders. */
    static void waitUntilProcessed(String address, long count, Duration max) throws Exception {
        java.time.Instant deadline = java.time.Instant.now().plus(max);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            Map<TopicPartition, OffsetSpec> ends = new HashMap<>();
            for (int i = 0; i < Broker.PARTITIONS; i++) {
                ends.put(new TopicPartition(Instance.ORDERS, i), OffsetSpec.latest());
            }
            long committed = 0;
            while (committed < count) {
                if (java.time.Instant.now().isAfter(deadline)) {
                    throw new IllegalStateException(
                            "expected " + count + " orders to be processed, found " + committed);
                }
                Thread.sleep(500);
                committed = 0;
                Map<TopicPartition, OffsetAndMetadata> offsets =
                        admin.listConsumerGroupOffsets("shop").partitionsToOffsetAndMetadata().get();
                for (TopicPartition partition : ends.keySet()) {
                    OffsetAndMetadata offset = offsets.get(partition);
                    committed += offset == null ? 0 : offset.offset();
                }
            }
        }
    }

    private static String process(Process instance) throws IOException {
        Map<String, String> status = new HashMap<>();
        for (String line : Files.readAllLines(Path.of("/proc/" + instance.pid() + "/status"))) {
            status.put(line.substring(0, line.indexOf(':')), line.replaceAll("\\D", ""));
        }
        return Long.parseLong(status.get("VmRSS")) / 1024 + " " + status.get("Threads");
    }

    private static long bytes(Path dir) throws IOException {
        try (Stream<Path> files = Files.walk(dir)) {
            return files.filter(Files::isRegularFile).mapToLong(it -> it.toFile().length()).sum();
        }
    }
}
