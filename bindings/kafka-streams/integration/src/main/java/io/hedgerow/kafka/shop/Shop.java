package io.hedgerow.kafka.shop;

import io.hedgerow.kafka.HedgerowDslStoreSuppliers;
import java.nio.file.Path;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.StreamsConfig;

/** The example: a broker, orders, and two instances that one can kill; they are started again. */
public final class Shop {
    private static final int INSTANCES = 2;
    private static final int CUSTOMERS = 50;

    private Shop() {}

    /** Argument: the directory for the instances' state. */
    public static void main(String[] arguments) throws Exception {
        Path dir = Path.of(arguments[0]);
        String suppliers = HedgerowDslStoreSuppliers.class.getName();
        Fleet fleet = new Fleet(dir, INSTANCES, StreamsConfig.AT_LEAST_ONCE, suppliers);
        try (KafkaProducer<String, String> names =
                new KafkaProducer<>(
                        Orders.config(fleet.address), new StringSerializer(), new StringSerializer())) {
            for (int i = 0; i < CUSTOMERS; i++) {
                names.send(new ProducerRecord<>(Instance.CUSTOMERS, "customer-" + i, "Name " + i));
            }
        }
        new Orders(fleet.address, CUSTOMERS, 20, Long.MAX_VALUE, true).start();
        for (int i = 0; i < INSTANCES; i++) {
            int index = i;
            new Thread(() -> keep(fleet, index)).start();
        }
        System.out.println("Orders come. Kill an instance by `kill -9`; end everything by Ctrl-C.");
    }

    private static void keep(Fleet fleet, int index) {
        try {
            while (true) {
                Process instance = fleet.start(index);
                System.out.printf(
                        "instance %d is process %d, its page is http://localhost:%d/%n",
                        index, instance.pid(), fleet.port(index));
                instance.waitFor();
            }
        } catch (InterruptedException | java.io.IOException e) {
            System.err.println("instance " + index + " ended: " + e);
        }
    }
}
