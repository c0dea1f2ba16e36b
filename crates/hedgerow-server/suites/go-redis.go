// What programs do with go-redis: pools, pipelines, transactions, messages, waiting, walks.
package main

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

var checks int

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

func main() {
	protocol := must(strconv.Atoi(os.Args[2]))
	ctx := context.Background()
	r := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + os.Args[1], Protocol: protocol})
	check(r.FlushAll(ctx).Val(), "OK")

	// A pipeline.
	written := must(r.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range 500 {
			pipe.Set(ctx, fmt.Sprint("key:", i), i, time.Hour)
		}
		return nil
	}))
	check(len(written), 500)
	walk, walked := r.Scan(ctx, 0, "key:*", 50).Iterator(), map[string]bool{}
	for walk.Next(ctx) {
		walked[walk.Val()] = true
	}
	check(len(walked), 500)
	check(r.TTL(ctx, "key:7").Val() > 59*time.Minute, true)

	// Hashes, and fields that expire.
	check(must(r.HSet(ctx, "user", "name", "Ada", "born", 1815, "session", "x").Result()), int64(3))
	check(must(r.HGetAll(ctx, "user").Result()), map[string]string{"name": "Ada", "born": "1815", "session": "x"})
	check(must(r.HExpire(ctx, "user", time.Minute, "session", "none").Result()), []int64{1, -2})
	check(must(r.HTTL(ctx, "user", "name").Result()), []int64{-1})
	check(must(r.HPersist(ctx, "user", "session").Result()), []int64{1})
	check(must(r.HGetDel(ctx, "user", "session").Result()), []string{"x"})

	// Lists, sets, sorted sets, streams.
	check(must(r.RPush(ctx, "list", "a", "b", "c").Result()), int64(3))
	check(must(r.LRange(ctx, "list", 0, -1).Result()), []string{"a", "b", "c"})
	check(must(r.SAdd(ctx, "set", "x", "y", "x").Result()), int64(2))
	r.ZAdd(ctx, "board", redis.Z{Score: 2, Member: "b"}, redis.Z{Score: 1.5, Member: "a"})
	board := []redis.Z{{Score: 1.5, Member: "a"}, {Score: 2, Member: "b"}}
	check(must(r.ZRangeWithScores(ctx, "board", 0, -1).Result()), board)
	id := must(r.XAdd(ctx, &redis.XAddArgs{Stream: "stream", Values: []any{"field", 1}}).Result())
	check(must(r.XRange(ctx, "stream", "-", "+").Result())[0].ID, id)

	// A counter that is changed by transactions of several goroutines.
	var wait sync.WaitGroup
	for range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for done := 0; done < 25; {
				err := r.Watch(ctx, func(tx *redis.Tx) error {
					n, err := tx.Get(ctx, "n").Int()
					if err != nil && err != redis.Nil {
						return err
					}
					_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
						return pipe.Set(ctx, "n", n+1, 0).Err()
					})
					return err
				}, "n")
				if err == nil {
					done++
				} else if err != redis.TxFailedErr {
					panic(err)
				}
			}
		}()
	}
	wait.Wait()
	check(must(r.Get(ctx, "n").Int()), 200)

	// A script, by its digest; messages; a client that waits.
	script := redis.NewScript("return redis.call('incrby', KEYS[1], ARGV[1])")
	check(must(script.Run(ctx, r, []string{"n"}, 5).Int()), 205)
	listener := r.Subscribe(ctx, "news")
	must(listener.Receive(ctx))
	check(must(r.Publish(ctx, "news", "hello").Result()), int64(1))
	check(must(listener.ReceiveMessage(ctx)).Payload, "hello")
	check(listener.Close(), nil)
	popped := make(chan []string)
	go func() { popped <- must(r.BLPop(ctx, 20*time.Second, "queue").Result()) }()
	r.RPush(ctx, "queue", "job")
	check(<-popped, []string{"queue", "job"})
	check(r.Close(), nil)
	fmt.Printf("go-redis, protocol %d: %d checks\n", protocol, checks)
}
