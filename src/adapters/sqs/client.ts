// Requests to SQS: the JSON protocol over HTTP, signed by the optional package aws4fetch.

import { driverMissing } from '../../core/driver-missing.ts'
import { RepriseError } from '../../core/errors.ts'
import { Credentials } from '../../stores/s3/credentials.ts'

export interface SqsKeys {
  readonly accessKeyId: string
  readonly secretAccessKey: string
  readonly sessionToken?: string
}

export interface SqsAddress {
  /** The address of the queue. */
  readonly url: string
  readonly region: string
  /** Default: the usual places of AWS keys. */
  readonly credentials?: SqsKeys | (() => Promise<SqsKeys>) | undefined
}

/** A request that was not answered, or was answered with a failure that may pass. */
export class SqsAway extends Error {
  override readonly name: string = 'SqsAway'
}

interface SigningDriver {
  readonly AwsV4Signer: new (
    request: Readonly<Record<string, unknown>>,
  ) => {
    sign(): Promise<{ readonly headers: Headers }>
  }
}

const throttled = /Throttl|RequestLimitExceeded|ServiceUnavailable|InternalFailure|OverLimit|TooManyRequests/i
const expired = /Expired/i
/** How much longer than the server's own wait to wait for its answer. */
const lateMs = 15_000

export class SqsClient {
  readonly #address: SqsAddress
  readonly #driver: SigningDriver
  readonly #usual = new Credentials()

  private constructor(address: SqsAddress, driver: SigningDriver) {
    this.#address = address
    this.#driver = driver
  }

  static async open(address: SqsAddress): Promise<SqsClient> {
    return new SqsClient(address, await loadSigner())
  }

  async call(
    action: string,
    input: Readonly<Record<string, unknown>>,
    waitMs = 0,
    signal?: AbortSignal,
  ): Promise<Json> {
    const { url: queueUrl, region } = this.#address
    const url = new URL('/', queueUrl).href
    const body = JSON.stringify({ QueueUrl: queueUrl, ...input })
    const headers = { 'content-type': 'application/x-amz-json-1.0', 'x-amz-target': `AmazonSQS.${action}` }
    const keys = await this.#keys()
    const signer = new this.#driver.AwsV4Signer({ method: 'POST', url, headers, body, service: 'sqs', region, ...keys })
    const signed = await signer.sign()
    const late = AbortSignal.timeout(waitMs + lateMs)
    let response: Response
    let text: string
    try {
      response = await fetch(url, {
        ...{ method: 'POST', headers: signed.headers, body },
        signal: signal ? AbortSignal.any([late, signal]) : late,
      })
      text = await response.text()
    } catch (cause) {
      const because = cause instanceof Error ? ((cause.cause as Error | undefined)?.message ?? cause.message) : cause
      throw new SqsAway(`${action} was not answered: ${because}`, { cause })
    }
    if (response.ok) return text === '' ? {} : (JSON.parse(text) as Json)
    throw this.#failure(action, response.status, text)
  }

  async #keys(): Promise<SqsKeys> {
    const { credentials } = this.#address
    if (credentials === undefined) return await this.#usual.keys()
    return typeof credentials === 'function' ? await credentials() : credentials
  }

  #failure(action: string, status: number, text: string): Error {
    const type = /"__type"\s*:\s*"([^"]*)"/.exec(text)?.[1]?.split('#').at(-1) ?? ''
    const message = /"[mM]essage"\s*:\s*"([^"]*)"/.exec(text)?.[1] ?? text.slice(0, 200)
    if (expired.test(type)) this.#usual.forget()
    const what = `${action}: ${status} ${type} ${message}`
    if (status >= 500 || status === 429 || throttled.test(type) || expired.test(type)) return new SqsAway(what)
    const data = { url: this.#address.url, status, answer: type }
    if (/NonExistentQueue|QueueDoesNotExist/.test(type)) {
      return new RepriseError('NOT_FOUND', `there is no queue ${this.#address.url}`, data)
    }
    return new RepriseError('QUEUE_REFUSED', what, data)
  }
}

// biome-ignore lint/suspicious/noExplicitAny: an answer of the server; every use checks what it reads.
export type Json = Readonly<Record<string, any>>

async function loadSigner(): Promise<SigningDriver> {
  try {
    return (await import('aws4fetch')) as unknown as SigningDriver
  } catch (cause) {
    throw driverMissing('sqsQueue()', ['aws4fetch'], cause)
  }
}
