package io.hedgerow.kafka.bench;

import com.fasterxml.jackson.databind.ObjectMapper;
import io.hedgerow.kafka.shop.Children;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;

/**
 * Measures one application with the stores of each engine in turn, in a process of its own each
 * time. Appends a row of JSON for each, and prints medians.
 */
public final class Bench {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final List<String> FIGURES =
            List.of(
                    "records_restored", "running_ms", "memory_mib", "process_threads",
                    "loads_per_second", "updates_per_second", "store_commit_us_p999",
                    "task_commit_ms_p999", "device_mib", "device_closed_mib", "disk_mib",
                    "disk_closed_mib");

    private final List<Part> parts = new ArrayList<>();
    private final Map<String, String> given = new TreeMap<>();
    private List<Engine> engines;
    private int rounds = 3;
    private Path dir = Path.of("target", "bench");
    private Path out;
    private final List<Map<String, Object>> rows = new ArrayList<>();

    private Bench(String[] arguments) {
        for (int i = 0; i < arguments.length; i++) {
            if (!arguments[i].startsWith("--")) {
                parts.add(Part.of(arguments[i]));
            } else if (i + 1 == arguments.length) {
                throw new IllegalArgumentException("expected a value behind " + arguments[i]);
            } else {
                option(arguments[i].substring(2).replace('-', '_'), arguments[++i]);
            }
        }
        if (parts.isEmpty()) {
            parts.addAll(List.of(Part.values()));
        }
    }

    private void option(String name, String value) {
        switch (name) {
            case "rounds":
                rounds = Integer.parseInt(value);
                break;
            case "engines":
                engines = Stream.of(value.split(",")).map(Engine::of).collect(Collectors.toList());
                break;
            case "dir":
                dir = Path.of(value);
                break;
            case "out":
                out = Path.of(value);
                break;
            default:
                // Settings that no part has are refused before anything runs.
                Part.RESTART.settings(Map.of()).text(name);
                given.put(name, value);
        }
    }

    /** Arguments: parts, all by default; options {@code --rounds 3}, {@code --keys 1000000}, … */
    public static void main(String[] arguments) throws Exception {
        Bench bench;
        try {
            bench = new Bench(arguments);
        } catch (IllegalArgumentException e) {
            System.err.println("bench: " + e.getMessage());
            System.exit(2);
            return;
        }
        bench.run();
        boolean failed = bench.rows.stream().anyMatch(it -> it.containsKey("failed"));
        System.exit(failed ? 1 : 0);
    }

    private void run() throws Exception {
        Path place = dir.toAbsolutePath();
        try (Children children = new Children(place)) {
            String broker = children.startBroker();
            try (Admin admin = Admin.create(
                            Map.of("bootstrap.servers", broker, "default.api.timeout.ms", 600_000));
                    Input input = new Input(broker)) {
                for (Part part : parts) {
                    for (int round = 1; round <= rounds; round++) {
                        for (Engine engine : engines == null ? part.engines() : engines) {
                            String id = part.label() + "-" + engine.label + "-" + round;
                            Settings settings =
                                    part.settings(given)
                                            .with("store", engine.label)
                                            .with("id", id)
                                            .with("broker", broker)
                                            .with("dir", place.resolve(id));
                            add(settings, round, new Run(children, admin, input, settings).measure());
                        }
                    }
                    medians(part);
                }
            }
        }
    }

    private void add(Settings settings, int round, Map<String, Object> measured) throws IOException {
        Map<String, Object> row = settings.row();
        row.keySet().removeAll(List.of("id", "broker", "dir"));
        row.put("bench", "kafka-streams");
        row.put("round", round);
        row.put("guarantee", "at_least_once");
        row.put("machine", Machine.row());
        row.put("versions", Machine.versions());
        row.putAll(measured);
        rows.add(row);
        String line = JSON.writeValueAsString(row) + "\n";
        System.err.print(line);
        if (out != null) {
            Files.writeString(out, line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }
    }

    /** Prints the medians of a part, a line for each figure and a column for each engine. */
    private void medians(Part part) {
        Map<String, List<Map<String, Object>>> byEngine =
                rows.stream()
                        .filter(it -> it.get("workload").equals(part.label()))
                        .collect(Collectors.groupingBy(
                                it -> it.get("store").toString(), TreeMap::new, Collectors.toList()));
        Set<String> figures = new LinkedHashSet<>(FIGURES);
        figures.removeIf(it -> rows.stream().noneMatch(row ->
                row.get("workload").equals(part.label()) && row.containsKey(it)));
        System.out.printf("%-24s", part.label());
        byEngine.keySet().forEach(it -> System.out.printf("%18s", it));
        System.out.println();
        for (String figure : figures) {
            System.out.printf("%-24s", figure);
            byEngine.values().forEach(it -> System.out.printf("%18s", median(it, figure)));
            System.out.println();
        }
    }

    private static String median(List<Map<String, Object>> rows, String figure) {
        double[] sorted =
                rows.stream()
                        .filter(it -> it.containsKey(figure))
                        .mapToDouble(it -> ((Number) it.get(figure)).doubleValue())
                        .sorted()
                        .toArray();
        return sorted.length == 0 ? "-" : String.format("%.1f", sorted[sorted.length / 2]);
    }
}
