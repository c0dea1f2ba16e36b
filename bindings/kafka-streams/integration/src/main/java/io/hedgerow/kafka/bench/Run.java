package io.hedgerow.kafka.bench;

import com.fasterxml.jackson.databind.JsonNode;
import io.hedgerow.kafka.shop.Children;
import io.hedgerow.kafka.shop.Progress;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;

/** One engine in one round of a part: an application with topics and a directory of its own. */
final class Run {
    private static final Duration COMMITTED_AFTER_MAX = Duration.ofMinutes(10);

    private final Children children;
    private final Admin admin;
    private final Input input;
    private final Settings settings;
    private final String id;
    private final Path dir;
    private final long keys;
    private final long updates;
    private final Map<String, Object> row = new TreeMap<>();

    Run(Children children, Admin admin, Input input, Settings settings) {
        this.children = children;
        this.admin = admin;
        this.input = input;
        this.settings = settings;
        id = settings.text("id");
        dir = Path.of(settings.text("dir"));
        keys = settings.number("keys");
        updates = settings.number("updates");
    }

    /**
     * Measures it, and leaves nothing behind. A run that fails keeps its row, which says why, and
     * does not end the others.
     */
    Map<String, Object> measure() throws IOException, InterruptedException {
        row.put("load_before", Machine.load());
        long limit = settings.number("limit_mib") << 20;
        Group group = limit == 0 ? null : Group.create(limit);
        Child child = null;
        try {
            NewTopic topic = new NewTopic(id, (int) settings.number("partitions"), (short) 1);
            admin.createTopics(List.of(topic)).all().get();
            input.load(id, keys, (int) settings.number("value_bytes"));
            child = new Child(children, settings, group);
            if (settings.text("workload").equals(Part.RESTART.label())) {
                child = restart(child, group);
            } else {
                steady(child);
            }
        } catch (IOException | ExecutionException | RuntimeException e) {
            fail(e);
        }
        if (child != null) {
            child.kill();
        }
        try {
            if (group != null) {
                group.close();
            }
            remove();
        } catch (IOException | ExecutionException | RuntimeException e) {
            fail(e);
        }
        row.put("load_after", Machine.load());
        return row;
    }

    private void fail(Exception e) {
        row.putIfAbsent("failed", e.toString());
    }

    /** Kills the application when it has processed some records behind its last commit. */
    private Child restart(Child child, Group group)
            throws IOException, ExecutionException, InterruptedException {
        processed(child, keys);
        committed(keys);
        input.update(id, updates, keys, (int) settings.number("value_bytes"));
        processed(child, keys + updates);
        // So that the changelog has them, too.
        Thread.sleep(1000);
        usage(child);
        child.kill();
        Child again = new Child(children, settings, group);
        try {
            JsonNode status = again.await(it -> it.get("entered").has("RUNNING"));
            row.put("records_restored", status.get("restored").asLong());
            for (String state : List.of("STARTED", "RESTORING", "RUNNING")) {
                JsonNode entered = status.get("entered").get(state);
                if (entered != null) {
                    row.put(state.toLowerCase(Locale.ROOT) + "_ms", entered.asLong() - again.startedAt);
                }
            }
            committed(keys + updates);
            check(again, true);
        } catch (IOException | ExecutionException | RuntimeException e) {
            // The caller kills the new one.
            fail(e);
        }
        return again;
    }

    /** Loads all keys, and then updates random ones. */
    private void steady(Child child) throws IOException, ExecutionException, InterruptedException {
        row.put("loads_per_second", perSecond(keys, processed(child, keys)));
        committed(keys);
        row.put("device_load_mib", child.written() >> 20);
        child.ask("pause");
        input.update(id, updates, keys, (int) settings.number("value_bytes"));
        child.ask("stretch " + (keys + updates));
        child.ask("resume");
        JsonNode status = processed(child, keys + updates);
        row.put("updates_per_second", perSecond(updates, status));
        committed(keys + updates);
        status.get("commits").properties().forEach(it ->
                row.put(it.getKey(), it.getValue().numberValue()));
        usage(child);
        child.ask("engine").properties().forEach(it ->
                row.put(it.getKey(), it.getValue().asLong()));
        check(child, false);
        child.ask("close");
        row.put("device_closed_mib", child.written() >> 20);
        row.put("disk_closed_mib", onDisk() >> 20);
    }

    private static JsonNode processed(Child child, long count)
            throws IOException, InterruptedException {
        return child.await(it -> it.get("processed").asLong() >= count);
    }

    private void committed(long count)
            throws IOException, ExecutionException, InterruptedException {
        Progress.await(admin, id, id, count, COMMITTED_AFTER_MAX);
    }

    private static long perSecond(long records, JsonNode status) {
        return Math.round(records * 1e9 / status.get("nanos").asLong());
    }

    private void usage(Child child) throws IOException, InterruptedException {
        row.put("memory_mib", child.system("status", "VmRSS") >> 10);
        row.put("memory_peak_mib", child.system("status", "VmHWM") >> 10);
        row.put("process_threads", child.system("status", "Threads"));
        row.put("device_mib", child.written() >> 20);
        row.put("device_read_mib", child.system("io", "read_bytes") >> 20);
        row.put("disk_mib", onDisk() >> 20);
    }

    /** Checks that no order was lost, and that none was counted twice unless that is allowed. */
    private void check(Child child, boolean repeated) throws IOException, InterruptedException {
        JsonNode total = child.ask("total");
        long stores = settings.number("stores");
        long sum = total.get("sum").asLong();
        long sent = (keys + updates) * stores;
        if (total.get("keys").asLong() != keys * stores || sum < sent || sum > sent && !repeated) {
            throw new IOException(
                    "expected " + keys * stores + " keys and " + sent + " orders, found " + total);
        }
    }

    /** The bytes that the state takes on its disk. */
    private long onDisk() throws IOException, InterruptedException {
        if (!Files.exists(dir)) {
            return 0;
        }
        Process process = new ProcessBuilder("du", "-s", "-B1", dir.toString()).start();
        String size = new String(process.getInputStream().readAllBytes()).split("\\s")[0];
        process.waitFor();
        return Long.parseLong(size);
    }

    private void remove() throws IOException, ExecutionException, InterruptedException {
        admin.deleteTopics(
                        admin.listTopics().names().get().stream()
                                .filter(it -> it.startsWith(id))
                                .collect(Collectors.toList()))
                .all().get();
        if (!Files.exists(dir)) {
            return;
        }
        try (Stream<Path> files = Files.walk(dir)) {
            for (Path file : files.sorted(Comparator.reverseOrder()).collect(Collectors.toList())) {
                Files.delete(file);
            }
        }
    }
}
