// A kafkajs consumer group: what is written is read, and committed.
//
// usage: node group.js MODULES BOOTSTRAP TOPIC GROUP RECORDS
"use strict";

const path = require("node:path");
const [modules, bootstrap, topic, groupId, records] = process.argv.slice(2);
const { Kafka, logLevel } = require(path.join(modules, "kafkajs"));

async function main() {
  const kafka = new Kafka({ clientId: "kafkajs-group", brokers: [bootstrap], logLevel: logLevel.NOTHING });
  const producer = kafka.producer();
  await producer.connect();
  const messages = [...Array(Number(records)).keys()].map((number) => ({ value: String(number) }));
  await producer.send({ topic, messages });
  await producer.disconnect();
  const consumer = kafka.consumer({ groupId });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  const seen = new Set();
  await new Promise((resolve) =>
    consumer.run({
      eachMessage: async ({ message }) => {
        seen.add(message.value.toString());
        if (seen.size === Number(records)) resolve();
      },
    }),
  );
  await consumer.disconnect();
  const admin = kafka.admin();
  await admin.connect();
  const [committed] = await admin.fetchOffsets({ groupId, topics: [topic] });
  const sum = committed.partitions.reduce((total, at) => total + Number(at.offset), 0);
  const { groups } = await admin.describeGroups([groupId]);
  await admin.deleteGroups([groupId]);
  await admin.disconnect();
  console.log(`${seen.size} ${sum} ${groups[0].state}`);
}

main().then(
  () => process.exit(0),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
