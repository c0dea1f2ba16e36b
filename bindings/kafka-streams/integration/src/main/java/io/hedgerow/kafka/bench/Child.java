package io.hedgerow.kafka.bench;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.hedgerow.kafka.shop.Children;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.ProcessBuilder.Redirect;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.Predicate;

/** The process of an {@link Application}. */
final class Child {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Duration AWAITED_MAX = Duration.ofMinutes(60);

    /** The milliseconds of the clock when it was started. */
    final long startedAt = System.currentTimeMillis();
    private final Process process;
    private final PrintStream commands;
    private final BufferedReader replies;

    /** Starts an application, in a control group unless that is null. */
    Child(Children children, Settings settings, Group group) throws IOException {
        // The whole heap is touched at once, so that memory differs by what is outside of it.
        String heap = settings.number("heap_mib") + "m";
        List<String> jvm = List.of(
                "-Xms" + heap, "-Xmx" + heap, "-XX:+AlwaysPreTouch", "-XX:+UseSerialGC",
                "-XX:+DisplayVMOutputToStderr");
        ProcessBuilder command =
                children.prepare("application", jvm, Application.class, settings.arguments())
                        .redirectOutput(Redirect.PIPE);
        if (group != null) {
            group.enter(command);
        }
        process = children.start(command);
        commands = new PrintStream(process.getOutputStream(), true, StandardCharsets.UTF_8);
        replies = new BufferedReader(
                new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
    }

    JsonNode ask(String command) throws IOException, InterruptedException {
        commands.println(command);
        String reply = replies.readLine();
        if (reply == null) {
            throw new IOException("the application ended with " + process.waitFor());
        }
        return JSON.readTree(reply);
    }

    /** Asks for the status until it is as expected, and returns it. */
    JsonNode await(Predicate<JsonNode> expected) throws IOException, InterruptedException {
        Instant deadline = Instant.now().plus(AWAITED_MAX);
        while (true) {
            JsonNode status = ask("status");
            if (expected.test(status)) {
                return status;
            }
            if (status.get("state").asText().equals("ERROR") || Instant.now().isAfter(deadline)) {
                throw new IOException("the application did not get on: " + status);
            }
            Thread.sleep(20);
        }
    }

    /**
     * A line of one of the process' files of the system, such as {@code io}, that begins with a
     * name.
     */
    long system(String file, String name) throws IOException {
        for (String line : Files.readAllLines(Path.of("/proc/" + process.pid() + "/" + file))) {
            if (line.startsWith(name + ":")) {
                return Long.parseLong(line.replaceAll("\\D", ""));
            }
        }
        throw new IOException("expected " + name + " in " + file + " of the process, found none");
    }

    /**
     * The bytes that the process has caused to be written to devices, without those taken back in
     * time.
     */
    long written() throws IOException {
        return system("io", "write_bytes") - system("io", "cancelled_write_bytes");
    }

    /** Kills it, and waits until it is gone. */
    void kill() throws InterruptedException {
        process.destroyForcibly().waitFor(1, TimeUnit.MINUTES);
    }
}
