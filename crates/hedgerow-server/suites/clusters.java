// The work of programs with Lettuce's client for clusters. It prints `step NAME` when something has
// to happen to the servers, and waits for a line that says that it has.

import io.lettuce.core.KeyValue;
import io.lettuce.core.LettuceFutures;
import io.lettuce.core.ReadFrom;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.SlotHash;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

final class Clusters {
    private static final int SLOTS = SlotHash.SLOT_COUNT;
    private static final BufferedReader INPUT = new BufferedReader(new InputStreamReader(System.in));
    private static int checks;

    private static void check(Object found, Object expected) {
        checks++;
        if (!Objects.equals(found, expected)) {
            throw new AssertionError("check " + checks + ": expected " + expected + ", found " + found);
        }
    }

    private static void step(String name) throws Exception {
        System.out.println("step " + name);
        check(INPUT.readLine(), "done");
    }

    /** The first word of the error of a call. */
    private static String refusal(Runnable call) {
        try {
            call.run();
            return "none";
        } catch (RedisCommandExecutionException error) {
            return error.getMessage().split(" ")[0];
        }
    }

    /** A key of each slot, in their order. */
    private static List<String> keysOfAllSlots() {
        String[] keys = new String[SLOTS];
        for (int number = 0, missing = SLOTS; missing > 0; number++) {
            String key = "lettuce:" + number;
            int slot = SlotHash.getSlot(key);
            if (keys[slot] == null) {
                keys[slot] = key;
                missing--;
            }
        }
        return List.of(keys);
    }

    /**
     * The number of keys with another value than they should have. They are read without waiting
     * for each.
     */
    private static long wrong(StatefulRedisClusterConnection<String, String> connection, List<String> keys)
            throws Exception {
        List<RedisFuture<String>> gets = new ArrayList<>();
        for (String key : keys) {
            gets.add(connection.async().get(key));
        }
        long count = 0;
        for (int place = 0; place < keys.size(); place++) {
            String value = gets.get(place).get(60, TimeUnit.SECONDS);
            count += ("value of " + keys.get(place)).equals(value) ? 0 : 1;
        }
        return count;
    }

    private static void keysAndPipelines(
            StatefulRedisClusterConnection<String, String> connection, List<String> keys) throws Exception {
        RedisAdvancedClusterCommands<String, String> commands = connection.sync();
        for (String key : keys.subList(0, 20)) {
            check(commands.clusterKeyslot(key), (long) SlotHash.getSlot(key));
        }
        // Sent together, as a pipeline.
        connection.setAutoFlushCommands(false);
        List<RedisFuture<String>> sets = new ArrayList<>();
        for (String key : keys) {
            sets.add(connection.async().set(key, "value of " + key));
            if (sets.size() % 2048 == 0) {
                connection.flushCommands();
            }
        }
        connection.setAutoFlushCommands(true);
        check(LettuceFutures.awaitAll(Duration.ofSeconds(60), sets.toArray(new RedisFuture[0])), true);
        check(sets.stream().allMatch(it -> it.toCompletableFuture().join().equals("OK")), true);
        check(wrong(connection, keys), 0L);
        for (String key : keys.subList(0, 1000)) {
            commands.set(key, "value of " + key);
        }
        long right = 0;
        for (String key : keys.subList(0, 1000)) {
            right += commands.get(key).equals("value of " + key) ? 1 : 0;
        }
        check(right, 1000L);
        long sum = 0;
        for (List<String> found : commands.upstream().commands().keys("lettuce:*")) {
            check(found.size() > SLOTS / 5, true);
            sum += found.size();
        }
        check(sum, (long) SLOTS);
    }

    private static void tagsAndTransactions(StatefulRedisClusterConnection<String, String> connection) {
        RedisAdvancedClusterCommands<String, String> commands = connection.sync();
        check(commands.mset(Map.of("{lettuce}name", "Ada", "{lettuce}born", "1815")), "OK");
        List<KeyValue<String, String>> found = commands.mget("{lettuce}name", "{lettuce}born", "{lettuce}x");
        check(found.stream().map(it -> it.getValueOrElse("none")).toList(), List.of("Ada", "1815", "none"));
        // They have several slots: the client divides them.
        check(commands.mset(Map.of("a", "1", "b", "2", "c", "3")), "OK");
        found = commands.mget("a", "b", "c");
        check(found.stream().map(KeyValue::getValue).toList(), List.of("1", "2", "3"));
        check(commands.del("a", "b", "c"), 3L);
        int slot = SlotHash.getSlot("{lettuce}n");
        check(slot, SlotHash.getSlot("lettuce"));
        check(commands.clusterKeyslot("{lettuce}n"), (long) slot);
        String node = connection.getPartitions().getPartitionBySlot(slot).getNodeId();
        RedisCommands<String, String> one = connection.getConnection(node).sync();
        check(one.multi(), "OK");
        one.set("{lettuce}n", "1");
        one.incr("{lettuce}n");
        check(one.exec().get(1), 2L);
        String[] keys = {"{lettuce}n"};
        Long counted = commands.eval("return redis.call('incrby', KEYS[1], ARGV[1])", ScriptOutputType.INTEGER, keys, "10");
        check(counted, 12L);
        check(commands.sadd("{lettuce}a", "x", "y"), 2L);
        check(commands.sunionstore("{lettuce}b", "{lettuce}a"), 2L);
        check(refusal(() -> commands.sunionstore("b", "{lettuce}a")), "CROSSSLOT");
        check(refusal(() -> commands.rename("{lettuce}a", "b")), "CROSSSLOT");
        check(commands.exists("{lettuce}a"), 1L);
    }

    /**
     * A message reaches the clients of the server that it is sent to, so the client listens at all.
     */
    private static void messages(RedisClusterClient client, RedisAdvancedClusterCommands<String, String> commands)
            throws Exception {
        var heard = new LinkedBlockingQueue<String>();
        var listener = client.connectPubSub();
        listener.setNodeMessagePropagation(true);
        listener.addListener(
                new RedisPubSubAdapter<>() {
                    @Override
                    public void message(String channel, String message) {
                        heard.add(channel + " " + message);
                    }
                });
        String[] channels = {"news:0", "news:1", "news:2", "news:3"};
        listener.sync().upstream().commands().subscribe(channels);
        for (String channel : channels) {
            check(commands.publish(channel, "hello"), 1L);
            check(heard.poll(60, TimeUnit.SECONDS), channel + " hello");
        }
        check(heard.poll(), null);
        listener.close();
    }

    /** The addresses, the first and the last slot that move, and whether there are replicas. */
    public static void main(String[] arguments) throws Exception {
        List<RedisURI> seeds = new ArrayList<>();
        for (String address : arguments[0].split(",")) {
            seeds.add(RedisURI.create("redis://" + address));
        }
        int first = Integer.parseInt(arguments[1]);
        int last = Integer.parseInt(arguments[2]);
        RedisClusterClient client = RedisClusterClient.create(seeds);
        StatefulRedisClusterConnection<String, String> connection = client.connect();
        RedisAdvancedClusterCommands<String, String> commands = connection.sync();
        List<String> keys = keysOfAllSlots();
        keysAndPipelines(connection, keys);
        tagsAndTransactions(connection);
        messages(client, commands);

        RedisURI before = connection.getPartitions().getPartitionBySlot(first).getUri();
        step("moved");
        // The client does not know yet, and is sent on.
        check(connection.getPartitions().getPartitionBySlot(first).getUri().getPort(), before.getPort());
        var old = connection.getConnection(before.getHost(), before.getPort()).sync();
        check(refusal(() -> old.get(keys.get(first))), "MOVED");
        check(wrong(connection, keys.subList(first, last + 1)), 0L);
        client.refreshPartitions();
        int port = connection.getPartitions().getPartitionBySlot(first).getUri().getPort();
        check(port == before.getPort(), false);
        check(wrong(connection, keys), 0L);

        if (!arguments[3].equals("0")) {
            step("replicated");
            connection.setReadFrom(ReadFrom.REPLICA);
            check(wrong(connection, keys), 0L);
            check(commands.set("{lettuce}n", "3"), "OK");
        }
        connection.close();
        client.shutdown(Duration.ZERO, Duration.ofSeconds(10));
        System.out.println("checks " + checks);
    }
}
