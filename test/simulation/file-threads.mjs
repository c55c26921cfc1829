// The processes of the file simulation as the main thread sees them: threads that stop before every statement and continue with
// permission. The main thread waits without its event loop, so only the seed decides the order.

import { MessageChannel, receiveMessageOnPort, Worker } from 'node:worker_threads'

const running = 0
const waiting = 1
const stuckMs = 60_000

export class FileProcess {
  name
  isBusy = false
  /** To be awaited before anything else: a thread cannot start while main waits without its event loop. */
  started
  #worker
  #port
  #control = new Int32Array(new SharedArrayBuffer(8))

  constructor(name) {
    this.name = name
    const { port1, port2 } = new MessageChannel()
    this.#port = port1
    this.#worker = new Worker(new URL('./file-process.mjs', import.meta.url), {
      workerData: { port: port2, control: this.#control },
      transferList: [port2],
    })
    this.started = new Promise((resolve, reject) => {
      this.#worker.once('message', resolve)
      this.#worker.once('error', reject)
    }).then(() => this.#worker.unref())
  }

  /** Begins an operation, which stops before its first statement. The answer, if there was none. */
  begin(name, given, at) {
    this.isBusy = true
    this.#go(() => this.#port.postMessage({ name, given, at }))
    return this.#look()
  }

  /** One statement more. The answer, if the operation is over. */
  step() {
    this.#go(() => {
      Atomics.store(this.#control, 1, 1)
      Atomics.notify(this.#control, 1)
    })
    return this.#look()
  }

  /** The whole operation, with nothing in between. Throws where it failed. */
  run(name, given, at) {
    let answer = this.begin(name, given, at)
    while (!answer) answer = this.step()
    if (!answer.ok) throw new Error(`${this.name} ${name}: ${answer.code} ${answer.message}`)
    return answer.value
  }

  #go(wake) {
    Atomics.store(this.#control, 0, running)
    wake()
    this.#wait()
  }

  #wait() {
    // A wake-up call can be late, and belong to the previous wait.
    while (Atomics.load(this.#control, 0) === running) {
      if (Atomics.wait(this.#control, 0, running, stuckMs) === 'timed-out') throw new Error(`${this.name} is stuck`)
    }
  }

  #look() {
    if (Atomics.load(this.#control, 0) === waiting) return null
    this.isBusy = false
    return receiveMessageOnPort(this.#port)?.message
  }
}
