// reprise/testing: for testing a custom store, or code against a store that fails.

export type { OpenStore } from './conformance/kit.ts'
export { type Capabilities, conformance, type Harness, type Runner } from './conformance/suite.ts'
export { type Given, given, type When, type WhenOptions } from './events.ts'
export { type Decide, type Fate, faultyStore } from './faulty-store.ts'
export { type LedgerCall, OutsideLedger } from './outside-ledger.ts'
export { type SinkHarness, type SinkWorld, sinkConformance } from './pipeline/sink-kit.ts'
export { type SourceHarness, type SourceWorld, sourceConformance } from './pipeline/source-kit.ts'
export { type FakeMessage, FakeQueue, type FakeQueueOptions } from './queue/fake-queue.ts'
export { type QueueHarness, type QueueWorld, queueConformance } from './queue/queue-kit.ts'
export { type Slowness, slowStore } from './slow-store.ts'
export { VirtualClock } from './virtual-clock.ts'
export {
  Crashed,
  type CrashPoint,
  checkHistories,
  type Disturbance,
  type KitArguments,
  type KitOptions,
  WorkflowKit,
} from './workflow.ts'
export { type CrashSweep, crashEverywhere } from './workflow-crash.ts'
export { type Answers, type Story, type StoryOutcome, story } from './workflow-story.ts'
