package io.hedgerow.kafka.shop;

import java.io.IOException;
import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/** Processes of classes of this program, which end with it at the latest. */
public final class Children implements AutoCloseable {
    private final Path dir;
    private final List<Process> started = new ArrayList<>();

    /** Processes that write their logs to a directory. */
    public Children(Path dir) throws IOException {
        this.dir = Files.createDirectories(dir);
        Runtime.getRuntime().addShutdownHook(new Thread(this::close));
    }

    /** Starts a broker, and returns its address. */
    public String startBroker() throws IOException, InterruptedException {
        Path written = dir.resolve("address");
        Files.deleteIfExists(written);
        Process broker =
                start(prepare("broker", List.of("-Xmx1024m"), Broker.class, written.toString()));
        while (!Files.exists(written)) {
            if (!broker.isAlive()) {
                throw new IOException("the broker did not start: " + log("broker"));
            }
            Thread.sleep(100);
        }
        return Files.readString(written);
    }

    /** A command that runs a class, whose output and errors are appended to a log of this name. */
    public ProcessBuilder prepare(
            String name, List<String> jvm, Class<?> main, String... arguments) {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(jvm);
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), main.getName()));
        command.addAll(List.of(arguments));
        Redirect log = Redirect.appendTo(log(name).toFile());
        return new ProcessBuilder(command).redirectOutput(log).redirectError(log);
    }

    /** Starts a command. */
    public synchronized Process start(ProcessBuilder command) throws IOException {
        Process child = command.start();
        started.removeIf(it -> !it.isAlive());
        started.add(child);
        return child;
    }

    /** The log of the processes of a name. */
    public Path log(String name) {
        return dir.resolve(name + ".log");
    }

    /** Ends all processes at once. */
    @Override
    public synchronized void close() {
        started.forEach(Process::destroyForcibly);
    }
}
