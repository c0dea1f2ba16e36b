package io.hedgerow.kafka.shop;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Objects;

/** A broker and the instances of an application, each a process that one can kill. */
final class Fleet implements AutoCloseable {
    /** The port of the first instance; the others have the next ones. */
    private static final int PORT = Integer.getInteger("shop.port", 7070);

    private final Path dir;
    private final String guarantee;
    private final String suppliers;
    private Process broker;
    private final List<Process> instances = new ArrayList<>();
    final String address;

    Fleet(Path dir, int count, String guarantee, String suppliers)
            throws IOException, InterruptedException {
        this.dir = dir;
        this.guarantee = guarantee;
        this.suppliers = suppliers;
        Runtime.getRuntime().addShutdownHook(new Thread(this::close));
        Files.createDirectories(dir);
        Path written = dir.resolve("address");
        Files.deleteIfExists(written);
        broker = start("broker", 1024, Broker.class, written.toString());
        while (!Files.exists(written)) {
            if (!broker.isAlive()) {
                throw new IOException("the broker did not start: " + dir.resolve("broker.log"));
            }
            Thread.sleep(100);
        }
        address = Files.readString(written);
        instances.addAll(Collections.nCopies(count, null));
    }

    private Process start(String name, int heapMib, Class<?> main, String... arguments)
            throws IOException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.add("-Xmx" + heapMib + "m");
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), main.getName()));
        command.addAll(List.of(arguments));
        return new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(dir.resolve(name + ".log").toFile()))
                .start();
    }

    /** Starts an instance, whose directory it keeps from one life to the next. */
    Process start(int index) throws IOException {
        Files.deleteIfExists(directory(index).resolve("state"));
        Process instance =
                start(
                        "instance-" + index,
                        512,
                        Instance.class,
                        address,
                        directory(index).toString(),
                        "" + port(index),
                        guarantee,
                        suppliers);
        instances.set(index, instance);
        return instance;
    }

    int port(int index) {
        return PORT + index;
    }

    private Path directory(int index) {
        return dir.resolve("instance-" + index);
    }

    /** Kills an instance at once, as {@code kill -9} does, and waits until it is gone. */
    void kill(int index) throws InterruptedException {
        instances.get(index).destroyForcibly().waitFor();
    }

    /** The state of an instance, and the records that it has restored since it was started. */
    String state(int index) throws IOException {
        Path state = directory(index).resolve("state");
        return Files.exists(state) ? Files.readString(state) : "";
    }

    boolean isRunning(int index) throws IOException {
        return instances.get(index).isAlive() && state(index).startsWith("RUNNING");
    }

    /** Ends all processes. */
    @Override
    public void close() {
        instances.stream().filter(Objects::nonNull).forEach(Process::destroyForcibly);
        if (broker != null) {
            broker.destroyForcibly();
        }
    }
}
