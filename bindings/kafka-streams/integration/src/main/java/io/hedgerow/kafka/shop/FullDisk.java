package io.hedgerow.kafka.shop;

import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.regex.Pattern;

/**
 * Two instances with standbys, of which the first has its state on a small disk, which becomes
 * full. It must stop with an error that says so, and the second one takes its partitions. With room
 * again the first one is started, and must come back. At the end every sum and every window must be
 * exact under exactly-once, and never less under at-least-once.
 */
public final class FullDisk {
    private static final int INSTANCES = 2;
    private static final int CUSTOMERS = 5000;
    private static final int PER_SECOND = 2000;
    private static final Duration RUNNING_AFTER_MAX = Duration.ofMinutes(3);
    private static final Duration STOPPED_AFTER_MAX = Duration.ofMinutes(10);
    private static final Pattern ERROR = Pattern.compile("no space left");

    private FullDisk() {}

    /** Arguments: directory, guarantee, suppliers. */
    public static void main(String[] arguments) throws Exception {
        String guarantee = arguments[1];
        boolean passed;
        try (Fleet fleet = new Fleet(Path.of(arguments[0]), INSTANCES, guarantee, arguments[2])) {
            Orders orders = fleet.begin(CUSTOMERS, PER_SECOND);
            System.out.println("begin: " + fleet.waitUntilRunning(RUNNING_AFTER_MAX));
            Path ballast = fleet.directory(0).resolve("state-dir").resolve("ballast");
            System.out.printf("the disk is full after %d MiB more%n", fill(ballast) >> 20);
            passed = stops(fleet);
            Files.delete(ballast);
            fleet.kill(0);
            fleet.start(0);
            System.out.println("with room again: " + fleet.waitUntilRunning(RUNNING_AFTER_MAX));
            passed &= fleet.isRunning(0) && fleet.isRunning(1);
            passed &= Results.areRight(fleet, orders, guarantee);
        }
        Results.end(guarantee + ", a full disk", passed);
    }

    /** Writes a file until there is no room, and returns its size. */
    private static long fill(Path file) throws IOException {
        if (!Files.getFileStore(file.getParent()).type().equals("tmpfs")) {
            throw new IOException("expected a small disk for " + file.getParent());
        }
        byte[] bytes = new byte[4096];
        long size = 0;
        try (OutputStream out = Files.newOutputStream(file)) {
            while (true) {
                out.write(bytes);
                size += bytes.length;
            }
        } catch (IOException e) {
            return size;
        }
    }

    /**
     * Waits until the first instance has stopped. Returns true if it has said why, and the other
     * runs.
     */
    private static boolean stops(Fleet fleet)
            throws IOException, ExecutionException, InterruptedException {
        Instant began = Instant.now();
        if (!Progress.await(STOPPED_AFTER_MAX, () -> fleet.state(0).startsWith("ERROR"))) {
            System.out.println("expected the instance to stop, found " + fleet.state(0));
            return false;
        }
        long seconds = Duration.between(began, Instant.now()).toSeconds();
        List<String> errors = fleet.logged(0, ERROR);
        System.out.printf(
                "stopped after %d s; the other one: %s; %d lines say why%n",
                seconds, fleet.state(1), errors.size());
        errors.stream().limit(1).forEach(System.out::println);
        return !errors.isEmpty() && !fleet.state(1).startsWith("ERROR");
    }
}
