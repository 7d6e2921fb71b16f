// One member of a kafkajs consumer group: prints "PARTITION OFFSET VALUE" of each record; SIGTERM ends it as users do.
//
// usage: node member.js MODULES BOOTSTRAP TOPIC GROUP SESSION_MS
"use strict";

const path = require("node:path");
const [modules, bootstrap, topic, groupId, sessionMs] = process.argv.slice(2);
const { Kafka, logLevel } = require(path.join(modules, "kafkajs"));

async function main() {
  const kafka = new Kafka({ clientId: "kafkajs-member", brokers: [bootstrap], logLevel: logLevel.NOTHING });
  const consumer = kafka.consumer({ groupId, sessionTimeout: Number(sessionMs), heartbeatInterval: 500 });
  process.once("SIGTERM", () => consumer.disconnect().then(() => process.exit(0)));
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    autoCommitInterval: 200,
    eachMessage: async ({ partition, message }) => console.log(`${partition} ${message.offset} ${message.value}`),
  });
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
