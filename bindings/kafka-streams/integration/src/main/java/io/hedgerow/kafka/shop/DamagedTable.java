package io.hedgerow.kafka.shop;

import io.hedgerow.Hedgerow;
import io.hedgerow.Options;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;
import java.util.stream.Stream;

/**
 * Two instances with standbys, of which the first is stopped as a service is, and started again
 * with damaged tables. It must notice that, restore the stores, and run on. At the end every sum
 * and every window must be exact under exactly-once, and never less under at-least-once.
 */
public final class DamagedTable {
    private static final int INSTANCES = 2;
    /** So many that their sums take tables that one tells from those of the offsets. */
    private static final int CUSTOMERS = 50_000;
    private static final int PER_SECOND = 2000;
    private static final Duration RUNNING_AFTER_MAX = Duration.ofMinutes(5);
    private static final Duration PROCESSED_AFTER_MAX = Duration.ofMinutes(10);
    /**
     * Smaller tables are those of the offsets, whose damage is noticed when the database is opened.
     */
    private static final long TABLE_BYTES_MIN = 100_000;
    /** Under exactly-once a store that was not closed is corrupt, too, with other words. */
    private static final Pattern NOTICED = Pattern.compile("the files of store \\S+ are damaged");

    private DamagedTable() {}

    /** Arguments: directory, guarantee, suppliers. */
    public static void main(String[] arguments) throws Exception {
        String guarantee = arguments[1];
        boolean passed;
        try (Fleet fleet = new Fleet(Path.of(arguments[0]), INSTANCES, guarantee, arguments[2])) {
            Orders orders = fleet.begin(CUSTOMERS, PER_SECOND);
            System.out.println("begin: " + fleet.waitUntilRunning(RUNNING_AFTER_MAX));
            Progress.await(
                    fleet.address, "shop", Instance.ORDERS, 3 * CUSTOMERS, PROCESSED_AFTER_MAX);
            fleet.stop(0);
            flushSums(fleet);
            List<Path> tables = tables(fleet);
            for (Path table : tables) {
                damage(table);
            }
            int before = fleet.logged(0, NOTICED).size();
            fleet.start(0);
            passed =
                    Progress.await(
                            RUNNING_AFTER_MAX, () -> fleet.logged(0, NOTICED).size() > before);
            String waited = fleet.waitUntilRunning(RUNNING_AFTER_MAX);
            System.out.printf(
                    "%d tables damaged, %s: %s%n",
                    tables.size(), passed ? "noticed" : "NOT NOTICED", waited);
            passed &= fleet.isRunning(0) && fleet.isRunning(1);
            passed &= Results.areRight(fleet, orders, guarantee);
        }
        Results.end(guarantee + ", damaged tables", passed);
    }

    /**
     * Writes the sums of the first instance to tables. Every order reads a sum; tables of windows
     * may never be read again.
     */
    private static void flushSums(Fleet fleet) {
        Path database = fleet.directory(0).resolve("state-dir").resolve(".hedgerow-shop");
        try (Hedgerow db = Hedgerow.open(database, new Options())) {
            for (String name : db.keyspaceNames()) {
                if (name.contains("." + Instance.SUMS + ".")) {
                    db.keyspace(name).flush().await();
                }
            }
        }
    }

    private static List<Path> tables(Fleet fleet) throws IOException {
        List<Path> tables = new ArrayList<>();
        try (Stream<Path> files = Files.walk(fleet.directory(0).resolve("state-dir"))) {
            for (Path file : (Iterable<Path>) files::iterator) {
                if (file.toString().endsWith(".table") && file.toFile().length() >= TABLE_BYTES_MIN) {
                    tables.add(file);
                }
            }
        }
        return tables;
    }

    /** Changes a byte of each page in the first half of a file, which has entries. */
    private static void damage(Path table) throws IOException {
        byte[] bytes = Files.readAllBytes(table);
        for (int i = 100; i < bytes.length / 2; i += 1000) {
            bytes[i] ^= 0x55;
        }
        Files.write(table, bytes);
    }
}
