//! Asks members of an etcd cluster over HTTP: one after the other until one answers, each for its share of
//! the time, with a token where users are known by one. Knows nothing of leases.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::{Response, Uri};

use crate::ENDPOINTS_MAX;
use crate::error::EtcdError;
use crate::tls::Tls;

/// Bytes of an answer: one key, whose value is a node's name.
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// Bytes of the head of an answer.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// A connection serves the parts of one question; between questions a server may have gone, or a firewall
/// forgotten it.
const IDLE_MAX: Duration = Duration::from_secs(1);
const TIMEOUT_MIN: Duration = Duration::from_millis(10);
/// Longer than anybody waits.
const TIMEOUT_MAX: Duration = Duration::from_secs(3_600);

pub(crate) struct Gateway {
    agent: Agent,
    endpoints: Vec<String>,
    /// The one that answered last.
    last: AtomicUsize,
    timeout: Duration,
    user: Option<EtcdUser>,
}

struct EtcdUser {
    name: String,
    password: String,
    /// What etcd knows the user by, for some minutes.
    token: Mutex<Option<String>>,
}

/// Several requests that have one time together.
pub(crate) struct TimedRequests<'a> {
    gateway: &'a Gateway,
    ends: Instant,
}

impl Gateway {
    pub(crate) fn new<E: AsRef<str>>(endpoints: &[E], tls: Tls, timeout: Duration) -> io::Result<Self> {
        if !(1..=ENDPOINTS_MAX).contains(&endpoints.len()) {
            return Err(illegal(&format!(
                "1 to {ENDPOINTS_MAX} endpoints, not {}",
                endpoints.len()
            )));
        }
        let scheme = tls.scheme();
        let endpoints: io::Result<Vec<String>> = endpoints
            .iter()
            .map(|endpoint| legal(endpoint.as_ref(), scheme))
            .collect();
        let settings = Agent::config_builder()
            .tls_config(tls.settings())
            .http_status_as_error(false)
            .proxy(None)
            .max_redirects(0)
            .max_response_header_size(HEAD_BYTES_MAX)
            .max_idle_age(IDLE_MAX)
            .user_agent("quorate");
        Ok(Self {
            agent: settings.build().new_agent(),
            endpoints: endpoints?,
            last: AtomicUsize::new(0),
            timeout,
            user: None,
        })
    }

    pub(crate) fn set_user(&mut self, name: &str, password: &str) {
        self.user = Some(EtcdUser {
            name: name.to_owned(),
            password: password.to_owned(),
            token: Mutex::default(),
        });
    }

    pub(crate) fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout.clamp(TIMEOUT_MIN, TIMEOUT_MAX);
    }

    /// Its time begins now.
    pub(crate) fn question(&self) -> TimedRequests<'_> {
        TimedRequests {
            gateway: self,
            ends: Instant::now() + self.timeout,
        }
    }
}

impl TimedRequests<'_> {
    /// The answer to one request.
    pub(crate) fn ask(&self, path: &str, body: &Value) -> Result<Value, EtcdError> {
        let Some(user) = &self.gateway.user else {
            return self.send(path, body, None);
        };
        let known = user.known();
        let is_known = known.is_some();
        let token = match known {
            Some(token) => token,
            None => self.authenticate(user)?,
        };
        match self.send(path, body, Some(&token)) {
            // etcd forgets tokens, when it is restarted at the latest.
            Err(error) if is_known && error.wants_a_fresh_token() => {
                let token = self.authenticate(user)?;
                self.send(path, body, Some(&token))
            }
            outcome => outcome,
        }
    }

    fn authenticate(&self, user: &EtcdUser) -> Result<String, EtcdError> {
        user.knows(None);
        let who = json!({ "name": user.name, "password": user.password });
        let answer = self.send("/v3/auth/authenticate", &who, None)?;
        let token = answer.get("token").and_then(Value::as_str);
        let token = token.ok_or(EtcdError::BadAnswer("a user without a token"))?;
        user.knows(Some(token));
        Ok(token.to_owned())
    }

    /// Asks the member that answered last, and the others in order until one answers.
    fn send(&self, path: &str, body: &Value, token: Option<&str>) -> Result<Value, EtcdError> {
        let gateway = self.gateway;
        let count = gateway.endpoints.len();
        let first = gateway.last.load(Ordering::Relaxed);
        let mut outcome = Err(EtcdError::TooLate);
        for step in 0..count {
            let left = self.ends.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let at = (first + step) % count;
            let share = left / u32::try_from(count - step).unwrap_or(u32::MAX);
            outcome = gateway.post(at, path, (body, token), share);
            match &outcome {
                Err(error) if error.is_elsewhere() => {}
                Ok(_) | Err(_) => {
                    gateway.last.store(at, Ordering::Relaxed);
                    break;
                }
            }
        }
        outcome
    }
}

impl Gateway {
    fn post(
        &self,
        at: usize,
        path: &str,
        (body, token): (&Value, Option<&str>),
        limit: Duration,
    ) -> Result<Value, EtcdError> {
        let endpoint = &self.endpoints[at];
        let request = self
            .agent
            .post(format!("{endpoint}{path}"))
            .config()
            .timeout_global(Some(limit))
            .build()
            .content_type("application/json");
        let request = match token {
            Some(token) => request.header("Authorization", token),
            None => request,
        };
        let away = |error: ureq::Error| EtcdError::unreachable(endpoint, &error);
        let mut response: Response<ureq::Body> = request.send(body.to_string()).map_err(away)?;
        let text = response
            .body_mut()
            .with_config()
            .limit(ANSWER_BYTES_MAX)
            .read_to_vec()
            .map_err(away)?;
        let status = response.status().as_u16();
        let not_etcd = || EtcdError::NotEtcd {
            endpoint: endpoint.clone(),
            status,
        };
        let answer: Value = serde_json::from_slice(&text).map_err(|_| not_etcd())?;
        match refusal(&answer) {
            Some(refusal) => Err(refusal),
            None if status == 200 && answer.is_object() => Ok(answer),
            None => Err(not_etcd()),
        }
    }
}

/// `{"message": …, "code": …}`, or within `error` where an answer comes in parts.
fn refusal(answer: &Value) -> Option<EtcdError> {
    let error = answer.get("error")?;
    let code = error.get("grpc_code").or_else(|| answer.get("code"));
    let code = code.and_then(Value::as_u64).and_then(|code| code.try_into().ok());
    let message = error.get("message").unwrap_or(error).as_str().unwrap_or_default();
    Some(EtcdError::refused(code.unwrap_or(2), message))
}

/// `scheme://host:port`, without a slash at its end.
fn legal(endpoint: &str, scheme: &str) -> io::Result<String> {
    // A name and a password would be in every line of the log.
    let shown = if endpoint.contains('@') {
        "one with a user"
    } else {
        endpoint
    };
    let wrong = || illegal(&format!("an endpoint is {scheme}://host:port, not {shown}"));
    let uri: Uri = endpoint.parse().map_err(|_| wrong())?;
    let authority = uri
        .authority()
        .filter(|authority| !authority.as_str().contains('@'));
    let is_legal = uri.scheme_str() == Some(scheme) && uri.path() == "/" && uri.query().is_none();
    match authority {
        Some(authority) if is_legal && uri.port_u16().is_some() => Ok(format!("{scheme}://{authority}")),
        Some(_) | None => Err(wrong()),
    }
}

fn illegal(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

impl EtcdUser {
    fn known(&self) -> Option<String> {
        let token = self.token.lock().unwrap_or_else(PoisonError::into_inner);
        token.clone()
    }

    fn knows(&self, token: Option<&str>) {
        *self.token.lock().unwrap_or_else(PoisonError::into_inner) = token.map(str::to_owned);
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Passwords and tokens are in no log.
        f.debug_struct("Gateway")
            .field("endpoints", &self.endpoints)
            .field("timeout", &self.timeout)
            .field("user", &self.user.as_ref().map(|user| &user.name))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_scheme_a_host_and_a_port() {
        for (endpoint, kept) in [
            ("http://etcd-1:2379", "http://etcd-1:2379"),
            ("http://10.0.0.1:2379/", "http://10.0.0.1:2379"),
            ("http://[::1]:2379", "http://[::1]:2379"),
        ] {
            assert_eq!(legal(endpoint, "http").ok().as_deref(), Some(kept));
        }
        for endpoint in [
            "",
            "etcd-1:2379",
            "http://etcd-1",
            "https://etcd-1:2379",
            "http://etcd-1:2379/v3",
            "http://etcd-1:2379/?a",
            "http://me:secret@etcd-1:2379",
        ] {
            let error = legal(endpoint, "http").expect_err(endpoint).to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn refusals_are_told_apart_from_answers() {
        let plain = json!({"error": "etcdserver: requested lease not found", "message": "etcdserver: requested lease not found", "code": 5});
        let streamed =
            json!({"error": {"grpc_code": 14, "http_code": 503, "message": "etcdserver: no leader"}});
        let lost = EtcdError::refused(5, "etcdserver: requested lease not found");
        assert_eq!(refusal(&plain), Some(lost));
        assert_eq!(
            refusal(&streamed),
            Some(EtcdError::refused(14, "etcdserver: no leader"))
        );
        assert_eq!(refusal(&json!({"error": 7})), Some(EtcdError::refused(2, "")));
        assert_eq!(refusal(&json!({"header": {}})), None);
    }

    #[test]
    fn neither_a_password_nor_a_token_is_shown() {
        let mut gateway =
            Gateway::new(&["http://etcd-1:2379"], Tls::off(), Duration::from_secs(1)).expect("legal");
        gateway.set_user("orders", "secret");
        if let Some(user) = &gateway.user {
            user.knows(Some("ticket"));
        }
        let shown = format!("{gateway:?}");
        assert!(shown.contains("orders"));
        assert!(!shown.contains("secret") && !shown.contains("ticket"), "{shown}");
    }
}
