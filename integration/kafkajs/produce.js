// kafkajs produces numbered records with keys and headers, plain and through gzip.
//
// usage: node produce.js MODULES BOOTSTRAP TOPIC RECORDS
"use strict";

const path = require("node:path");
const [modules, bootstrap, topic, records] = process.argv.slice(2);
const { Kafka, CompressionTypes, logLevel } = require(path.join(modules, "kafkajs"));

async function main() {
  const kafka = new Kafka({
    clientId: "kafkajs-suite",
    brokers: [bootstrap],
    logLevel: logLevel.WARN,
    retry: { retries: 3 },
  });
  const admin = kafka.admin();
  await admin.connect();
  const made = await admin.createTopics({ topics: [{ topic, numPartitions: 2 }] });
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
  if (!made || topics[0].partitions.length !== 2) throw new Error("the topic was not made with 2 partitions");

  const kinds = [
    { idempotent: false, compression: CompressionTypes.None, acks: 1 },
    { idempotent: true, compression: CompressionTypes.GZIP, acks: -1 },
  ];
  let number = 0;
  for (const kind of kinds) {
    const producer = kafka.producer({ idempotent: kind.idempotent, maxInFlightRequests: 1 });
    await producer.connect();
    for (let sent = 0; sent < Number(records); sent += 100) {
      const messages = [];
      for (let i = 0; i < 100; i++, number++)
        messages.push({ partition: number % 2, key: `k${number}`, value: `v${number}`, headers: { h: `${number}` } });
      await producer.send({ topic, messages, acks: kind.acks, compression: kind.compression });
    }
    await producer.disconnect();
  }
  const offsets = await admin.fetchTopicOffsets(topic);
  await admin.disconnect();
  console.log(offsets.map((each) => `${each.partition}:${each.low}-${each.high}`).sort().join(" "));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
