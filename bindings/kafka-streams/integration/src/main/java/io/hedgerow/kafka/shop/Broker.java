package io.hedgerow.kafka.shop;

import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Map;
import org.apache.kafka.streams.integration.utils.EmbeddedKafkaCluster;

/** A broker in a process of its own. Writes its address to a file, and ends with its input. */
public final class Broker {
    static final int PARTITIONS = 4;

    private Broker() {}

    public static void main(String[] arguments) throws Exception {
        Path address = Path.of(arguments[0]);
        EmbeddedKafkaCluster cluster = new EmbeddedKafkaCluster(1);
        cluster.start();
        for (String topic :
                new String[] {
                    Instance.ORDERS, Instance.PAYMENTS, Instance.SUMS, Instance.WINDOWS
                }) {
            cluster.createTopic(topic, PARTITIONS, 1);
        }
        cluster.createTopic(
                Instance.CUSTOMERS, PARTITIONS, 1, Map.of("cleanup.policy", "compact"));
        Path written = address.resolveSibling("address.new");
        Files.writeString(written, cluster.bootstrapServers());
        Files.move(written, address, StandardCopyOption.ATOMIC_MOVE);
        while (System.in.read() >= 0) {}
        cluster.stop();
    }
}
