// What Spark's Kafka connector needs of the artifact spark-token-provider-kafka-0-10, for test machines whose Maven
// repository lacks it. Without delegation tokens, which no test uses.
package org.apache.spark.kafka010

import java.util.{HashMap, Map => JavaMap}

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkConf

class KafkaConfigUpdater(module: String, given: Map[String, Object]) {
  private val options = new HashMap[String, Object](given.asJava)

  def set(name: String, value: Object): this.type = {
    options.put(name, value)
    this
  }

  def setIfUnset(name: String, value: Object): this.type = {
    options.putIfAbsent(name, value)
    this
  }

  def setAuthenticationConfigIfNeeded(): this.type = this

  def setAuthenticationConfigIfNeeded(token: Option[Object]): this.type = this

  def build(): JavaMap[String, Object] = options
}

object KafkaTokenUtil {
  def findMatchingTokenClusterConfig(conf: SparkConf, servers: String): Option[Object] = None

  def needTokenUpdate(options: JavaMap[String, Object], token: Option[Object]): Boolean = false
}

object KafkaRedactionUtil {
  def redactParams(options: Seq[(String, Object)]): Seq[(String, String)] =
    options.map { case (name, _) => (name, "(hidden)") }
}
