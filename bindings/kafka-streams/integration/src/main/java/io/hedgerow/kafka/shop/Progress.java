package io.hedgerow.kafka.shop;

import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;

/** The records of a topic that an application has processed and committed. */
public final class Progress {
    private Progress() {}

    /** Waits until an application has committed that it has processed a number of records of a topic. */
    public static void await(Admin admin, String application, String topic, long count, Duration max)
            throws ExecutionException, InterruptedException {
        Instant deadline = Instant.now().plus(max);
        for (long committed = 0; committed < count; committed = committed(admin, application, topic)) {
            if (Instant.now().isAfter(deadline)) {
                throw new IllegalStateException(
                        "expected " + count + " records to be processed, found " + committed);
            }
            Thread.sleep(200);
        }
    }

    /** Waits as the other one does, at a broker's address. */
    static void await(String address, String application, String topic, long count, Duration max)
            throws ExecutionException, InterruptedException {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", address))) {
            await(admin, application, topic, count, max);
        }
    }

    private static long committed(Admin admin, String application, String topic)
            throws ExecutionException, InterruptedException {
        return admin.listConsumerGroupOffsets(application).partitionsToOffsetAndMetadata().get()
                .entrySet().stream()
                .filter(it -> it.getKey().topic().equals(topic) && it.getValue() != null)
                .mapToLong(it -> it.getValue().offset())
                .sum();
    }
}
