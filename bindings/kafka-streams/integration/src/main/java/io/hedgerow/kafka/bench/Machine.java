package io.hedgerow.kafka.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** The machine, and the versions of the programs on it. */
final class Machine {
    private Machine() {}

    static Map<String, Object> row() throws IOException {
        Map<String, Object> row = new TreeMap<>();
        row.put("cores", Runtime.getRuntime().availableProcessors());
        row.put("cpu", value("/proc/cpuinfo", "model name"));
        row.put("memory", value("/proc/meminfo", "MemTotal"));
        row.put("kernel", System.getProperty("os.version"));
        return row;
    }

    static Map<String, Object> versions() {
        Map<String, Object> row = new TreeMap<>();
        row.put("java", System.getProperty("java.version"));
        row.put("hedgerow", jar("hedgerow") + System.getProperty("bench.commit", ""));
        row.put("kafka_streams", jar("kafka-streams"));
        row.put("rocksdb", jar("rocksdbjni"));
        return row;
    }

    /**
     * The number of processes that have been running or waiting for a device, on an average of a
     * minute.
     */
    static double load() throws IOException {
        return Double.parseDouble(Files.readString(Path.of("/proc/loadavg")).split(" ")[0]);
    }

    private static String value(String file, String name) throws IOException {
        return Files.readAllLines(Path.of(file)).stream()
                .filter(it -> it.startsWith(name))
                .findFirst()
                .map(it -> it.substring(it.indexOf(':') + 1).trim())
                .orElse("unknown");
    }

    private static String jar(String name) {
        Matcher found =
                Pattern.compile("/" + name + "-(\\d[\\d.]*)\\.jar")
                        .matcher(System.getProperty("java.class.path"));
        return found.find() ? found.group(1) : "unknown";
    }
}
