// What programs do with go-redis' client for clusters. It prints `step NAME` when something has to
// happen to the servers, and waits for a line that says that it has.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

const slots = 16384

var (
	ctx    = context.Background()
	input  = bufio.NewReader(os.Stdin)
	checks int
)

func check(found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		panic(fmt.Sprintf("check %d: expected %v, found %v", checks+1, expected, found))
	}
	checks++
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func step(name string) {
	fmt.Println("step", name)
	check(must(input.ReadString('\n')), "done\n")
}

// slotOf returns the slot of a key without a tag.
func slotOf(key string) int {
	crc := uint16(0)
	for _, b := range []byte(key) {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}

// keysOfAllSlots returns a key of each slot, in their order.
func keysOfAllSlots() []string {
	keys := make([]string, slots)
	for i, missing := 0, slots; missing > 0; i++ {
		key := fmt.Sprint("go:", i)
		if at := slotOf(key); keys[at] == "" {
			keys[at] = key
			missing--
		}
	}
	return keys
}

// wrong returns how many keys have another value than they should, by pipelines or one by one.
func wrong(r *redis.ClusterClient, keys []string, pipelines bool) int {
	count := 0
	for begin := 0; begin < len(keys); begin += 2000 {
		part := keys[begin:min(begin+2000, len(keys))]
		gets := make([]*redis.StringCmd, len(part))
		if pipelines {
			must(r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for i, key := range part {
					gets[i] = pipe.Get(ctx, key)
				}
				return nil
			}))
		}
		for i, key := range part {
			if !pipelines {
				gets[i] = r.Get(ctx, key)
			}
			if must(gets[i].Result()) != "value of "+key {
				count++
			}
		}
	}
	return count
}

func keysAndPipelines(r *redis.ClusterClient, keys []string) {
	for _, key := range keys[:20] {
		check(must(r.ClusterKeySlot(ctx, key).Result()), int64(slotOf(key)))
	}
	for begin := 0; begin < slots; begin += 2048 {
		written := must(r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, key := range keys[begin : begin+2048] {
				pipe.Set(ctx, key, "value of "+key, 0)
			}
			return nil
		}))
		check(len(written), 2048)
	}
	check(wrong(r, keys, true), 0)
	for i := 0; i < slots; i += 16 {
		must(r.Set(ctx, keys[i], "value of "+keys[i], 0).Result())
	}
	check(wrong(r, keys, false), 0)
	var lock sync.Mutex
	counts := map[string]int{}
	err := r.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		found, err := node.Keys(ctx, "go:*").Result()
		lock.Lock()
		defer lock.Unlock()
		counts[node.Options().Addr] = len(found)
		return err
	})
	check(err, nil)
	check(len(counts), 3)
	sum := 0
	for _, count := range counts {
		check(count > slots/5, true)
		sum += count
	}
	check(sum, slots)
}

func isCrossSlot(err error) bool {
	return err != nil && strings.Contains(err.Error(), "CROSSSLOT")
}

func tagsAndTransactions(r *redis.ClusterClient) {
	check(must(r.MSet(ctx, "{user}name", "Ada", "{user}born", 1815).Result()), "OK")
	check(must(r.MGet(ctx, "{user}name", "{user}born", "{user}x").Result()), []any{"Ada", "1815", nil})
	tag := must(r.ClusterKeySlot(ctx, "user").Result())
	check(must(r.ClusterKeySlot(ctx, "{user}name").Result()), tag)
	replies := must(r.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
		pipe.Set(ctx, "{user}n", 1, 0)
		pipe.Incr(ctx, "{user}n")
		return nil
	}))
	check(replies[1].(*redis.IntCmd).Val(), int64(2))
	check(r.Watch(ctx, func(tx *redis.Tx) error {
		n := must(tx.Get(ctx, "{user}n").Int())
		_, err := tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
			return pipe.Set(ctx, "{user}n", n+5, 0).Err()
		})
		return err
	}, "{user}n"), nil)
	script := redis.NewScript("return redis.call('incrby', KEYS[1], ARGV[1])")
	check(must(script.Run(ctx, r, []string{"{user}n"}, 10).Int()), 17)
	r.SAdd(ctx, "{user}a", "x", "y")
	check(must(r.SUnionStore(ctx, "{user}b", "{user}a").Result()), int64(2))
	check(isCrossSlot(r.SUnionStore(ctx, "b", "{user}a").Err()), true)
	check(isCrossSlot(r.Rename(ctx, "{user}a", "b").Err()), true)
	check(isCrossSlot(script.Run(ctx, r, []string{"{user}n", "b"}, 1).Err()), true)
	check(must(r.Exists(ctx, "{user}a").Result()), int64(1))
}

// A message reaches the clients of the server that it is sent to. A client listens at the server that
// has the slot of the channel, and publishes anywhere.
func messages(r *redis.ClusterClient) {
	for i := range 4 {
		channel := fmt.Sprint("news:", i)
		listener := r.Subscribe(ctx, channel)
		must(listener.Receive(ctx))
		node := must(r.MasterForKey(ctx, channel))
		check(must(node.Publish(ctx, channel, "hello").Result()), int64(1))
		message := must(listener.ReceiveMessage(ctx))
		check([]string{message.Channel, message.Payload}, []string{channel, "hello"})
		check(listener.Close(), nil)
	}
}

// The arguments are addresses, the first and the last slot that move, and whether there are replicas.
func main() {
	addresses := strings.Split(os.Args[1], ",")
	first, last := must(strconv.Atoi(os.Args[2])), must(strconv.Atoi(os.Args[3]))
	r := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses})
	keys := keysOfAllSlots()
	keysAndPipelines(r, keys)
	tagsAndTransactions(r)
	messages(r)

	step("moved")
	check(wrong(r, keys[first:last+1], false), 0)
	check(wrong(r, keys, true), 0)
	check(must(r.Append(ctx, keys[first], "!").Result()), int64(len("value of "+keys[first]+"!")))
	check(must(r.Set(ctx, keys[first], "value of "+keys[first], 0).Result()), "OK")

	if os.Args[4] != "0" {
		step("replicated")
		reader := redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses, ReadOnly: true})
		check(wrong(reader, keys, true), 0)
		check(wrong(reader, keys[:3000], false), 0)
		check(wrong(reader, keys[slots-3000:], false), 0)
		check(must(reader.Set(ctx, "{user}n", 3, 0).Result()), "OK")
		check(reader.Close(), nil)
	}
	check(r.Close(), nil)
	fmt.Println("checks", checks)
}
