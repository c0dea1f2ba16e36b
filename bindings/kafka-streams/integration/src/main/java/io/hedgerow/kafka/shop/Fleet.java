package io.hedgerow.kafka.shop;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** A broker and the instances of an application, each a process that one can kill. */
final class Fleet implements AutoCloseable {
    /** The port of the first instance; the others have the next ones. */
    private static final int PORT = Integer.getInteger("shop.port", 7070);

    private final Path dir;
    private final String guarantee;
    private final String suppliers;
    private final Children children;
    private final List<Process> instances;
    final String address;

    Fleet(Path dir, int count, String guarantee, String suppliers)
            throws IOException, InterruptedException {
        this.dir = dir;
        this.guarantee = guarantee;
        this.suppliers = suppliers;
        children = new Children(dir);
        address = children.startBroker();
        instances = new ArrayList<>(Collections.nCopies(count, null));
    }

    /** Starts all instances, and orders that do not end. */
    Orders begin(int customers, int perSecond) throws IOException {
        for (int i = 0; i < instances.size(); i++) {
            start(i);
        }
        Orders orders = new Orders(address, customers, perSecond, Long.MAX_VALUE, false);
        orders.start();
        return orders;
    }

    /** Starts an instance, whose directory it keeps from one life to the next. */
    Process start(int index) throws IOException {
        Files.deleteIfExists(directory(index).resolve("state"));
        Process instance =
                children.start(
                        children.prepare(
                                name(index),
                                List.of("-Xmx512m"),
                                Instance.class,
                                address,
                                directory(index).toString(),
                                "" + port(index),
                                guarantee,
                                suppliers));
        instances.set(index, instance);
        return instance;
    }

    int port(int index) {
        return PORT + index;
    }

    private static String name(int index) {
        return "instance-" + index;
    }

    /** The directory of an instance; its state is in {@code state-dir}. */
    Path directory(int index) {
        return dir.resolve(name(index));
    }

    /** The lines with a pattern in the log of an instance, of all its lives. */
    List<String> logged(int index, Pattern pattern) throws IOException {
        try (Stream<String> lines = Files.lines(children.log(name(index)))) {
            return lines.filter(it -> pattern.matcher(it).find()).collect(Collectors.toList());
        }
    }

    /** Kills an instance at once, as {@code kill -9} does, and waits until it is gone. */
    void kill(int index) throws InterruptedException {
        instances.get(index).destroyForcibly().waitFor();
    }

    /** Stops an instance, as a service manager does, and waits until it has closed its stores. */
    void stop(int index) throws InterruptedException {
        instances.get(index).destroy();
        instances.get(index).waitFor();
    }

    /** The state of an instance, and the records that it has restored since it was started. */
    String state(int index) throws IOException {
        Path state = directory(index).resolve("state");
        return Files.exists(state) ? Files.readString(state) : "";
    }

    boolean isRunning(int index) throws IOException {
        return instances.get(index).isAlive() && state(index).startsWith("RUNNING");
    }

    /** Waits until all instances are running, or for some time; returns how it ended. */
    String waitUntilRunning(Duration max)
            throws IOException, ExecutionException, InterruptedException {
        Instant began = Instant.now();
        if (!Progress.await(max, this::areRunning)) {
            return "not all running after " + max.toSeconds() + " s";
        }
        long millis = Duration.between(began, Instant.now()).toMillis();
        StringBuilder text = new StringBuilder("all running after " + millis + " ms,");
        for (int i = 0; i < instances.size(); i++) {
            text.append(' ').append(state(i));
        }
        return text.toString();
    }

    private boolean areRunning() throws IOException {
        for (int i = 0; i < instances.size(); i++) {
            if (!isRunning(i)) {
                return false;
            }
        }
        return true;
    }

    /** Ends all processes. */
    @Override
    public void close() {
        children.close();
    }
}
