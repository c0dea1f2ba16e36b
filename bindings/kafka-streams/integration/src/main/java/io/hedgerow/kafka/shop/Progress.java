package io.hedgerow.kafka.shop;

import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;

/** Waits for what processes do. */
public final class Progress {
    private static final long ASKED_EVERY_MILLIS = 100;

    private Progress() {}

    /** A fact that a broker or the files of processes tell. */
    interface Condition {
        boolean isSo() throws IOException, ExecutionException, InterruptedException;
    }

    /** Waits until something is so, and returns true; or for some time, and returns false. */
    static boolean await(Duration max, Condition condition)
            throws IOException, ExecutionException, InterruptedException {
        Instant deadline = Instant.now().plus(max);
        while (!condition.isSo()) {
            if (Instant.now().isAfter(deadline)) {
                return false;
            }
            Thread.sleep(ASKED_EVERY_MILLIS);
        }
        return true;
    }

    /**
     * Waits until an application has committed that it has processed a number of records of a
     * topic.
     */
    public static void await(Admin admin, String application, String topic, long count, Duration max)
            throws IOException, ExecutionException, InterruptedException {
        if (!await(max, () -> committed(admin, application, topic) >= count)) {
            throw new IllegalStateException(
                    "expected " + count + " records to be processed, found "
                            + committed(admin, application, topic));
        }
    }

    /** Waits as the other one does, at a broker's address. */
    static void await(String address, String application, String topic, long count, Duration max)
            throws IOException, ExecutionException, InterruptedException {
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
