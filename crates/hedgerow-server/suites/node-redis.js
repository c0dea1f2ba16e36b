// The work of programs with node-redis: pipelines, transactions, messages, waiting, walks, copies.
"use strict";
const assert = require("node:assert");
const { createClient } = require("redis");

const port = Number(process.argv[2]);
const RESP = Number(process.argv[3]);
const options = { RESP, socket: { port } };
let checks = 0;
const check = (found, expected) => {
  // Objects of replies have no prototype.
  assert.deepEqual(JSON.parse(JSON.stringify(found)), expected);
  checks += 1;
};

async function main() {
  const client = await createClient(options).connect();
  const other = await createClient(options).connect();
  await client.flushAll();

  // A pipeline: calls of the same turn are sent together.
  const keys = Array.from({ length: 500 }, (_, i) => `key:${i}`);
  check(await Promise.all(keys.map((key, i) => client.set(key, `value ${i}`))), keys.map(() => "OK"));
  check(await client.mGet(keys), keys.map((_, i) => `value ${i}`));
  const walked = [];
  for await (const page of client.scanIterator({ MATCH: "key:*", COUNT: 50 })) walked.push(...page);
  check([...new Set(walked)].length, 500);

  // Hashes, and fields that expire.
  check(await client.hSet("user", { name: "Ada", born: "1815", session: "x" }), 3);
  check(await client.hGetAll("user"), { name: "Ada", born: "1815", session: "x" });
  check(await client.hExpire("user", ["session", "none"], 100), [1, -2]);
  check((await client.hTTL("user", ["session", "name"])).map((it) => it > 0), [true, false]);
  check(await client.hPersist("user", "session"), [1]);
  check(await client.hGetDel("user", ["session", "born"]), ["x", "1815"]);
  check(await client.hLen("user"), 1);

  // Lists, sets, sorted sets, streams.
  check(await client.rPush("list", ["a", "b", "c"]), 3);
  check(await client.lRange("list", 0, -1), ["a", "b", "c"]);
  check(await client.sAdd("set", ["x", "y", "x"]), 2);
  check(await client.zAdd("board", [{ score: 2, value: "b" }, { score: 1.5, value: "a" }]), 2);
  check(await client.zRangeWithScores("board", 0, -1), [{ value: "a", score: 1.5 }, { value: "b", score: 2 }]);
  const id = await client.xAdd("stream", "*", { field: "1" });
  const [read] = (await client.xRead({ key: "stream", id: "0" })) ?? [];
  check(read.messages[0].id, id);

  // A transaction, and one that is refused.
  check(await client.multi().set("n", "1").incr("n").get("n").exec(), ["OK", 2, "2"]);
  await client.watch("n");
  await other.incr("n");
  await assert.rejects(client.multi().incr("n").exec());
  checks += 1;

  // A script; messages; a client that waits.
  check(await client.eval("return redis.call('incrby', KEYS[1], ARGV[1])", { keys: ["n"], arguments: ["5"] }), 8);
  const listener = await client.duplicate().connect();
  const told = new Promise((resolve) => listener.subscribe("news", resolve).then(() => other.publish("news", "hello")));
  check(await told, "hello");
  await listener.unsubscribe();
  const popped = listener.blPop("queue", 20);
  await other.rPush("queue", "job");
  const { key, element } = await popped;
  check([String(key), String(element)], ["queue", "job"]);

  // Copies of values, which the server invalidates.
  if (RESP === 3) {
    const cached = await createClient({ ...options, clientSideCache: { ttl: 0, maxEntries: 100 } }).connect();
    for (let i = 0; i < 20; i++) {
      await other.set("copied", String(i));
      // The message may come a moment later than the reply that the other client has.
      while ((await cached.get("copied")) !== String(i)) await new Promise(setImmediate);
      check(await cached.get("copied"), String(i));
    }
    cached.destroy();
  }
  for (const it of [client, other, listener]) it.destroy();
  console.log(`node-redis, protocol ${RESP}: ${checks} checks`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
