package io.hedgerow.kafka.shop;

import java.nio.file.Path;
import java.time.Duration;
import java.util.Random;

/**
 * Three instances with standbys, of which a random one is killed again and again, while orders
 * come. At the end every sum and every window must be exact under exactly-once, and never less
 * under at-least-once.
 */
public final class KillTest {
    private static final int INSTANCES = 3;
    private static final int CUSTOMERS = 5000;
    private static final int PER_SECOND = 1000;
    private static final Duration KILLED_AFTER_MAX = Duration.ofSeconds(30);

    private KillTest() {}

    /** Arguments: directory, guarantee, kills, suppliers. */
    public static void main(String[] arguments) throws Exception {
        String guarantee = arguments[1];
        int kills = Integer.parseInt(arguments[2]);
        boolean passed;
        try (Fleet fleet = new Fleet(Path.of(arguments[0]), INSTANCES, guarantee, arguments[3])) {
            Orders orders = fleet.begin(CUSTOMERS, PER_SECOND);
            Random random = new Random(31);
            for (int kill = 1; kill <= kills; kill++) {
                String waited = fleet.waitUntilRunning(KILLED_AFTER_MAX);
                int victim = random.nextInt(INSTANCES);
                System.out.printf("kill %d of %d: %s, instance %d%n", kill, kills, waited, victim);
                fleet.kill(victim);
                fleet.start(victim);
            }
            System.out.println("end: " + fleet.waitUntilRunning(KILLED_AFTER_MAX));
            passed = Results.areRight(fleet, orders, guarantee);
        }
        Results.end(guarantee + ", " + kills + " kills", passed);
    }
}
